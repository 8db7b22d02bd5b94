"""Once per process whatever the threads do: many of them, failures, re-entry, circles, hangs, forks in between."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from sites import build, dist
from test_loader import GROUP, Bed, bed  # noqa: F401  # the fixture

if TYPE_CHECKING:
    from pathlib import Path

LONG = bool(os.environ.get("VPLUG_LONG"))
# the whole of it, 1,000 plugins and 200 rounds, runs in `make test-long`
PLUGINS, ROUNDS = (1000, 200) if LONG else (60, 20)


def crowd(site: Path, count: int) -> None:
    """Plugins of one distribution that count their runs; some fail at first, some ask for others."""
    points = "".join(f"p{n} = crowd_mod:run{n}\n" for n in range(count))
    build(site, dist("crowd", "1.0", f"[{GROUP}]\n{points}"))
    source = """
        from collections import Counter
        ran, succeeded = Counter(), Counter()
        loader = None
        def make(n):
            def run():
                ran[n] += 1
                if ran[n] == 1 and n % 11 == 0:
                    raise OSError(n)
                if n % 47 == 0:
                    loader.load()  # from within
                succeeded[n] += 1
                return n
            return run
        for n in range(COUNT):
            globals()[f"run{n}"] = make(n)
    """
    build(site, {"crowd_mod.py": "\n".join(line[8:] for line in source.splitlines()).replace("COUNT", str(count))})


@pytest.mark.timeout(3000 if LONG else 120)
def test_eight_threads_run_every_plugin_once_per_success(bed: Bed) -> None:  # noqa: F811
    crowd(bed.site, PLUGINS)
    (said,) = bed.run(
        f"""
        import crowd_mod
        warnings.simplefilter("ignore")
        wrong, most = [], 0.0
        for round in range({ROUNDS}):
            crowd_mod.ran.clear(); crowd_mod.succeeded.clear()
            loader = crowd_mod.loader = PluginLoader(G, call=True, wait_limit=60)
            loader.reset()
            barrier = threading.Barrier(8)
            def work():
                barrier.wait()
                while len(loader.load()) < {PLUGINS}:
                    pass
            threads = [threading.Thread(target=work) for _ in range(8)]
            began = time.monotonic()
            [t.start() for t in threads]; [t.join() for t in threads]
            most = max(most, time.monotonic() - began)
            runs = [(crowd_mod.succeeded[n], crowd_mod.ran[n]) for n in range({PLUGINS})]
            wrong += [n for n, seen in enumerate(runs) if seen != (1, 1 + (n % 11 == 0))]
        say(wrong, most < 60)
        """,
        timeout=2900 if LONG else 110,
    )
    assert said == [[], True]


def test_three_threads_in_a_circle_get_the_named_error_at_once(bed: Bed) -> None:  # noqa: F811
    for name, other in (("a", "b"), ("b", "c"), ("c", "a")):
        source = f"""
            import main_of_test
            def run():
                main_of_test.barrier.wait()
                return main_of_test.loader.get({other!r})
        """
        bed.plugin(name, source)
    (said,) = bed.run("""
        import types
        main_of_test = types.ModuleType("main_of_test")
        main_of_test.barrier = threading.Barrier(3)
        main_of_test.loader = PluginLoader(G, call=True, wait_limit=30)
        sys.modules["main_of_test"] = main_of_test
        PluginLoader(G).load()
        ends = {}
        def work(name):
            try:
                ends[name] = main_of_test.loader.get(name).state
            except Exception as error:
                ends[name] = f"{type(error).__name__}: {error}"
        threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
        began = time.monotonic()
        [t.start() for t in threads]; [t.join() for t in threads]
        say(sorted(ends.values()), time.monotonic() - began < 1)
    """)
    assert said[1] is True
    assert sum("LoadCycleError: plugins wait for each other" in end for end in said[0]) >= 1
    circle = next(end for end in said[0] if "LoadCycleError" in end)
    assert circle.count("waits for") == 3


def test_a_plugin_that_hangs_is_named_and_others_go_on(bed: Bed) -> None:  # noqa: F811
    bed.plugin("hangs", "import main_of_test\nmain_of_test.gate.wait()\ndef run(): pass\n").plugin("fine")
    (said,) = bed.run("""
        import types
        main_of_test = types.ModuleType("main_of_test")
        main_of_test.gate = threading.Event()
        sys.modules["main_of_test"] = main_of_test
        first = threading.Thread(target=lambda: PluginLoader(G).load())
        first.start()
        while "hangs_mod" not in sys.modules:
            time.sleep(0.01)
        loader = PluginLoader(G, wait_limit=0.3)
        loaded = names(loader.load())
        rows = {p.name: p for p in loader.report().plugins}
        text = str(loader.report())
        try:
            loader.get("hangs")
        except vplug_rs.LoadTimeoutError as error:
            late = (isinstance(error, TimeoutError), error.thread == first.ident, "hangs_mod.py" in str(error))
        main_of_test.gate.set(); first.join()
        say(loaded, rows["hangs"].failure.phase, "loading" in text, late, names(loader.load()))
    """)
    assert said == [["fine"], "wait", True, [True, True, True], ["fine", "hangs"]]


def test_other_threads_may_import_meanwhile(bed: Bed) -> None:  # noqa: F811
    crowd(bed.site, 300)
    (said,) = bed.run("""
        import types
        warnings.simplefilter("ignore")
        sys.setswitchinterval(1e-6)
        stop = threading.Event()
        def imports():
            while not stop.is_set():
                for number in range(50):
                    sys.modules[f"made_up_{number}"] = types
                for number in range(50):
                    del sys.modules[f"made_up_{number}"]
        threads = [threading.Thread(target=imports, daemon=True) for _ in range(3)]
        [t.start() for t in threads]
        import crowd_mod
        loader = crowd_mod.loader = PluginLoader(G, kind="any")
        numbers = []
        for _ in range(150):
            numbers.append(len(loader.load()))
            loader.reset()
        stop.set()
        [t.join() for t in threads]
        say(numbers)
    """)
    assert said == [[300] * 150]


def test_a_signal_ends_the_waiting(bed: Bed) -> None:  # noqa: F811
    bed.plugin("hangs", "import main_of_test\nmain_of_test.gate.wait()\ndef run(): pass\n")
    (said,) = bed.run("""
        import signal, types
        main_of_test = types.ModuleType("main_of_test")
        main_of_test.gate = threading.Event()
        sys.modules["main_of_test"] = main_of_test
        first = threading.Thread(target=lambda: PluginLoader(G).load(), daemon=True)
        first.start()
        while "hangs_mod" not in sys.modules:
            time.sleep(0.01)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        def ring(*_):
            raise KeyboardInterrupt
        signal.signal(signal.SIGALRM, ring)
        began = time.monotonic()
        try:
            PluginLoader(G).load()
        except KeyboardInterrupt:
            say("interrupted", time.monotonic() - began < 5)
        main_of_test.gate.set(); first.join()
    """)
    assert said == ["interrupted", True]


def test_a_plugin_that_forks_leaves_both_processes_sound(bed: Bed) -> None:  # noqa: F811
    source = """
        import os
        def run():
            child = os.fork()
            if child:
                return ("parent", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            return ("child", 0)
    """
    bed.plugin("forks", source).plugin("after")
    said = bed.run(
        """
        loader = PluginLoader(G, call=True)
        loaded = loader.load()
        what = {p.name: p.result for p in loaded}
        if what["forks"][0] == "child":
            again = names(PluginLoader(G, call=True).load())
            os._exit(0 if again == ["after", "forks"] else 9)
        say(names(loaded), what["forks"])
    """,
        timeout=30,
    )
    assert said == [[["after", "forks"], ["parent", 0]]]


def test_a_plugin_that_starts_a_thread_which_loads_is_bounded(bed: Bed) -> None:  # noqa: F811
    source = """
        import threading, main_of_test
        def run():
            thread = threading.Thread(target=main_of_test.inner)
            thread.start()
            thread.join()
    """
    bed.plugin("p", source)
    (said,) = bed.run(
        """
        import types
        main_of_test = types.ModuleType("main_of_test")
        ends = []
        def inner():
            loader = PluginLoader(G, call=True, wait_limit=0.5)
            ends.append((names(loader.load()), loader.report().plugins[0].failure.phase))
        main_of_test.inner = inner
        sys.modules["main_of_test"] = main_of_test
        say(names(PluginLoader(G, call=True).load()), ends)
    """,
        timeout=30,
    )
    assert said == [["p"], [[[], "wait"]]]
