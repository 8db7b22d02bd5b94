"""The loader under plugins and installations that try it: hidden names, forks from inside, errors that hide."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from sites import build
from test_loader import GROUP, TOUCH, Bed, bed  # noqa: F401  # the fixture

if TYPE_CHECKING:
    from sites import Node

POINTS = f"[{GROUP}]\n{{0}} = {{0}}_mod:run\n"


def test_a_denied_distribution_is_found_by_its_metadata_whatever_its_folder_is_called(bed: Bed) -> None:  # noqa: F811
    trees: dict[str, dict[str, Node]] = {
        "beta": {"beta-tools-1.0.dist-info": {"METADATA": "Name: beta-tools\nVersion: 1.0\n"}},
        "delta": {"delta-1.0.egg": {"EGG-INFO": {"PKG-INFO": "Name: delta\nVersion: 1.0\n"}}},
        "gamma": {"gamma.egg-info": {"PKG-INFO": "Name: other-name\nVersion: 1.0\n"}},
    }
    for name, tree in trees.items():
        (folder,) = tree
        inner = tree[folder]
        assert isinstance(inner, dict)
        target = inner.get("EGG-INFO", inner)
        assert isinstance(target, dict)
        target["entry_points.txt"] = POINTS.format(name)
        build(bed.site, tree)
        (bed.site / f"{name}_mod.py").write_text(TOUCH + "def run(): pass\n", encoding="utf-8")
    (said,) = bed.run("""
        sys.path.append(sys.path[0] + "/delta-1.0.egg")
        everything = names(PluginLoader(G, kind="any").load())
        for module in ("beta_mod", "delta_mod", "gamma_mod"):
            sys.modules.pop(module, None)
        os.remove("touched.txt")
        vplug_rs.PluginLoader(G).reset()
        denied = Policy(deny=["dist:beta-tools", "dist:delta", "dist:other-name"])
        say(sorted(everything), names(PluginLoader(G, policy=denied).load()), os.path.exists("touched.txt"))
    """)
    assert said == [["beta", "delta", "gamma"], [], False]


def test_a_denied_folder_is_kept_out_whatever_its_metadata_says(bed: Bed) -> None:  # noqa: F811
    build(
        bed.site,
        {"evil-1.0.dist-info": {"METADATA": "Name: nice\nVersion: 1.0\n", "entry_points.txt": POINTS.format("p")}},
    )
    (bed.site / "p_mod.py").write_text(TOUCH + "def run(): pass\n", encoding="utf-8")
    (said,) = bed.run("""
        loaders = [PluginLoader(G, policy=Policy(deny=[rule])) for rule in ("dist:evil", "dist:nice")]
        say([names(loader.load()) for loader in loaders], loaders[0].report().plugins[0].rule)
    """)
    assert said == [[[], []], "`!dist:evil` in code denies it"]
    assert not (bed.folder / "touched.txt").exists()


def test_a_plugin_that_forks_and_loads_in_the_child_runs_once_in_each(bed: Bed) -> None:  # noqa: F811
    source = """
        import os, main_of_test
        runs = []
        def run():
            runs.append(os.getpid())
            child = os.fork()
            if child:
                return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            main_of_test.inside.append([p.name for p in main_of_test.loader.load()])
            return "child"
    """
    bed.plugin("forks", source).plugin("other")
    (said,) = bed.run(
        """
        import types
        main_of_test = types.ModuleType("main_of_test")
        main_of_test.inside = []
        main_of_test.loader = PluginLoader(G, call=True)
        sys.modules["main_of_test"] = main_of_test
        loaded = main_of_test.loader.load()
        import forks_mod
        result = {p.name: p.result for p in loaded}["forks"]
        if result == "child":
            again = names(main_of_test.loader.load()) + names(PluginLoader(G, call=True).load())
            good = main_of_test.inside == [["other"]] and len(forks_mod.runs) == 1
            os._exit(0 if good and again == ["forks", "other"] * 2 else 9)
        say(names(loaded), result, len(forks_mod.runs))
    """,
        timeout=30,
    )
    assert said == [["forks", "other"], 0, 1]


def test_the_same_loader_asked_from_within_loses_nothing(bed: Bed) -> None:  # noqa: F811
    bed.plugin("a", "import main_of_test\ndef run():\n    main_of_test.loader.load()\n").plugin("b")
    (said,) = bed.run(
        """
        import types
        main_of_test = types.ModuleType("main_of_test")
        main_of_test.loader = PluginLoader(G, call=True)
        sys.modules["main_of_test"] = main_of_test
        say(names(main_of_test.loader.load()), names(main_of_test.loader.load()), main_of_test.loader.get("a").state)
    """,
        timeout=30,
    )
    assert said == [["a", "b"], ["a", "b"], "loaded"]


def test_a_call_tells_of_its_own_attempts_only(bed: Bed) -> None:  # noqa: F811
    """While one thread is still loading, another one's retry succeeds: the first one's answer stays true."""
    bed.plugin(
        "a", "tries = []\ndef run():\n    tries.append(1)\n    if len(tries) == 1:\n        raise OSError('first')\n"
    )
    bed.plugin("z", "import main_of_test\ndef run():\n    main_of_test.at.set()\n    main_of_test.go.wait(20)\n")
    (said,) = bed.run(
        """
        import types
        main_of_test = types.ModuleType("main_of_test")
        main_of_test.at, main_of_test.go = threading.Event(), threading.Event()
        sys.modules["main_of_test"] = main_of_test
        loader = PluginLoader(G, call=True, policy=Policy(strict=True))
        ends = []
        def first():
            try:
                ends.append(names(loader.load()))
            except vplug_rs.PluginLoadError as error:
                ends.append([f.name for f in error.failures])
        thread = threading.Thread(target=first)
        thread.start()
        main_of_test.at.wait(20)
        retried = loader.get("a").state
        main_of_test.go.set()
        thread.join()
        say(retried, ends, names(loader.load()))
    """,
        timeout=60,
    )
    assert said == ["loaded", [["a"]], ["a", "z"]]


def test_once_means_once_for_each_project_however_its_folder_is_reached(bed: Bed) -> None:  # noqa: F811
    bed.plugin("p", "def run():\n    open('runs.txt', 'a').write('x')\n")
    (said,) = bed.run(f"""
        import shutil
        warnings.simplefilter("ignore")
        site = {str(bed.site)!r}
        os.symlink(site, "alias")
        seen = []
        for entry in (site, os.path.abspath("alias"), "alias"):
            sys.path[0] = entry
            seen += [(p.version, p.state) for p in PluginLoader(G, call=True).load()]
        os.rename(site + "/p-1.0.dist-info", site + "/p-2.0.dist-info")
        sys.path[0] = site
        seen += [(p.version, p.state) for p in PluginLoader(G, call=True).load()]
        say(seen, open("runs.txt").read())
    """)
    assert said == [[["1.0", "loaded"]] * 4, "x"], "what runs is still 1.0"


def test_each_loader_checks_the_kind_that_it_wants(bed: Bed) -> None:  # noqa: F811
    bed.plugin("number", "run = 3\n")
    (said,) = bed.run("""
        any_kind, callables = PluginLoader(G, kind="any"), PluginLoader(G)
        say([p.object for p in any_kind.load()], names(callables.load()), names(any_kind.load()),
            callables.report().plugins[0].failure.cause)
    """)
    assert said == [[3], [], ["number"], "TypeError: int is not callable"]


def test_get_runs_again_in_a_forked_child_where_that_is_wanted(bed: Bed) -> None:  # noqa: F811
    bed.plugin("p", "import os\ndef run():\n    return os.getpid()\n")
    said = bed.run("""
        loader = PluginLoader(G, call=True, fork="rerun")
        before = loader.get("p").result
        sys.stdout.flush()
        child = os.fork()
        if not child:
            plugin = loader.get("p")
            os._exit(0 if plugin.result == os.getpid() and plugin.processes == (os.getpid(),) else 9)
        say(before == os.getpid(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """)
    assert said == [[True, 0]]


def test_an_exception_that_cannot_be_shown_is_contained(bed: Bed) -> None:  # noqa: F811
    source = """
        class Odd(Exception):
            def __str__(self):
                raise ValueError("no text")
            __repr__ = __str__
        raise Odd()
    """
    bed.plugin("odd", source).plugin("good")
    (said,) = bed.run("""
        loader = PluginLoader(G)
        loaded = names(loader.load())
        try:
            loader.get("odd")
        except vplug_rs.PluginLoadError as error:
            text = str(error)
        failure = next(p for p in loader.report().plugins if p.name == "odd").failure
        say(loaded, failure.cause, "Odd (its text cannot be shown)" in text, "odd_mod.py" in failure.traceback,
            "odd" in str(loader.report()), "odd" in loader.report().json())
    """)
    assert said == [["good"], "Odd (its text cannot be shown)", True, True, True, True]


def test_half_a_torch_takes_nobody_down(bed: Bed) -> None:  # noqa: F811
    source = """
        import sys, types
        class Torch(types.ModuleType):
            def __getattr__(self, name):
                raise ImportError("half imported")
        sys.modules["torch"] = Torch("torch")
        raise OSError("broken")
    """
    bed.plugin("a_torch", source).plugin("good")
    (said,) = bed.run("say(names(PluginLoader(G, call=True).load()))")
    assert said == [["good"]]


def test_a_host_whose_way_of_warning_fails_still_loads(bed: Bed) -> None:  # noqa: F811
    bed.plugin("bad", "1 / 0\n").plugin("good")
    (said,) = bed.run("""
        def fail(*_, **__):
            raise RuntimeError("no warnings here")
        warnings.showwarning = fail
        one = names(PluginLoader(G).load())
        space = {"__name__": None, "vplug_rs": vplug_rs, "G": G}
        exec("found = vplug_rs.PluginLoader(G).load()", space)
        say(one, names(space["found"]))
    """)
    assert said == [["good"], ["good"]]


@pytest.mark.skipif(os.name != "posix", reason="names are bytes there")
def test_a_site_whose_path_is_not_utf8_is_loaded_from(bed: Bed) -> None:  # noqa: F811
    bed.plugin("p")
    odd = os.fsencode(bed.folder) + b"/caf\xe9"
    os.rename(bed.site, odd)
    (said,) = bed.run(f"""
        sys.path[0] = os.fsdecode({odd!r})
        loader = PluginLoader(G, call=True)
        plugin, = loader.load()
        say(plugin.name, plugin.version, plugin.state, len(str(loader.report())) > 0)
    """)
    assert said == ["p", "1.0", "loaded", True]


def test_a_line_that_stands_twice_is_one_plugin(bed: Bed) -> None:  # noqa: F811
    bed.plugin("p", "def run():\n    open('runs.txt', 'a').write('x')\n")
    info = bed.site / "p-1.0.dist-info/entry_points.txt"
    info.write_text(f"[{GROUP}]\np = p_mod:run\np = p_mod:run\n", encoding="utf-8")
    (said,) = bed.run("""
        loader = PluginLoader(G, call=True)
        say(names(loader.load()), [p.state for p in loader.report().plugins], open("runs.txt").read())
    """)
    assert said == [["p"], ["loaded"], "x"]


def test_errors_and_records_travel_to_other_processes(bed: Bed) -> None:  # noqa: F811
    bed.plugin("bad", "class Local(Exception): pass\nraise Local('odd')\n").plugin("kept")
    (said,) = bed.run("""
        import pickle
        from vplug_rs import LoadCycleError, LoadTimeoutError, PolicyError
        loader = PluginLoader(G, policy=Policy(deny=["kept"]))
        errors = [LoadCycleError("c", [(1, "x")], hint="h"), LoadTimeoutError("t", 7)]
        errors.append(PolicyError("p", path="f", line=3))
        for name in ("bad", "kept", "gone"):
            try:
                loader.get(name)
            except vplug_rs.VplugError as error:
                errors.append(error)
        back = [pickle.loads(pickle.dumps(error)) for error in errors]
        same = [(type(a) is type(b), str(a) == str(b), a.hint == b.hint) for a, b in zip(errors, back)]
        record, = back[3].failures
        say(all(all(row) for row in same), back[0].chain, back[1].thread, back[2].line, record.cause, record.name)
    """)
    assert said == [True, [[1, "x"]], 7, 3, "RuntimeError: Local: odd", "bad"]


def test_a_failure_keeps_nothing_of_its_host_alive(bed: Bed) -> None:  # noqa: F811
    bed.plugin("bad", "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise OSError('no') from error\n")
    (said,) = bed.run("""
        import gc, weakref
        class Large: pass
        def host():
            large = Large()
            seen.append(weakref.ref(large))
            loader = PluginLoader(G)
            loader.load()
            return loader
        seen.clear()
        warnings.simplefilter("ignore")
        loader = host()
        gc.collect()
        say(seen[0]() is None, "ZeroDivisionError" in loader.report().plugins[0].failure.traceback)
    """)
    assert said == [True, True]


@pytest.mark.parametrize("limit", ["0", "-1", "float('nan')"])
def test_a_wait_limit_has_to_be_a_positive_number(bed: Bed, limit: str) -> None:  # noqa: F811
    done = bed.process(f"PluginLoader(G, wait_limit={limit})")
    assert "ValueError: wait_limit=" in done.stderr


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_worker_pool_loads_once_in_each_worker(bed: Bed, method: str) -> None:  # noqa: F811
    bed.plugin("p", "import os\ndef run():\n    open(f'run-{os.getpid()}', 'a').write('x')\n")
    source = (
        "import vplug_rs\ndef work(_):\n    return [p.name for p in vplug_rs.PluginLoader('demo.plugins', call=True)]\n"
    )
    (bed.site / "worker_of_test.py").write_text(source, encoding="utf-8")
    (said,) = bed.run(f"""
        import glob, multiprocessing, worker_of_test
        with multiprocessing.get_context({method!r}).Pool(2) as pool:
            found = pool.map(worker_of_test.work, range(8), chunksize=1)
        say(found == [["p"]] * 8, {{open(file).read() for file in glob.glob("run-*")}} == {{"x"}})
    """)
    assert said == [True, True]


def test_neither_the_report_nor_a_warning_steers_the_terminal(bed: Bed) -> None:  # noqa: F811
    points = f"[{GROUP}]\nred\x1b[31m = acme_mod:run\nright\u202eleft = acme_mod:run\n"
    bed.plugin("acme", "raise ValueError('\\x1b[2J\\x1b]0;title\\x07')\n", entry_points_txt=points)
    done = bed.process("""
        warnings.showwarning = lambda message, *rest: print(message, file=sys.stderr)
        loader = PluginLoader(G, policy=Policy(deny=["none\\x07"]))
        loader.load()
        print(loader.report())
        say([row["name"] for row in loader.report().data["plugins"]])
    """)
    report, names = done.stdout.rsplit("\n", 2)[:2]
    for text in (report, done.stderr):
        assert not set("\x1b\x07\u202e") & set(text)
        for shown in ("red\\x1b[31m", "right\\u202eleft", "\\x1b[2J\\x1b]0;title\\x07", "`!none\\x07`"):
            assert shown in text
    assert names == '[["red\\u001b[31m", "right\\u202eleft"]]'
