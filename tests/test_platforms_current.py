"""`get_platform()`: found once, whoever asks and however often; what is unknown is not kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

import test_platforms_outside
from interpreters import clean_environment, shared_import_root
from platform_records import present
from sites import build, dist
from test_platforms_outside import NOTE, PlatformBed
from vplug_rs.platforms import current
from vplug_rs.platforms.answers import PlatformAbsentError, PlatformLoadError
from vplug_rs.platforms.model import Resolution

if TYPE_CHECKING:
    from pathlib import Path

bed = test_platforms_outside.bed

# whoever orders a platform asks nobody else, so these tests need no hardware and no driver
SLOW = NOTE + "import time\ndef run():\n    note('called')\n    time.sleep(1)\n    return 'acme.Slow'\n"
UNKNOWN = """
    from vplug_rs.platforms import current, resolution
    from vplug_rs.platforms.model import Probe, Resolution, UNKNOWN
    calls = []
    def look(**_):
        calls.append(1)
        time.sleep(0.3)
        return Resolution("none", probes=[Probe("cuda", UNKNOWN)], warnings=[f"look {len(calls)}"])
    resolution.resolve = look
"""
THREADS = """
    from concurrent.futures import ThreadPoolExecutor
    def all_at_once(number=8):
        start = threading.Barrier(number)
        def ask(_):
            start.wait()
            return vplug_rs.get_platform()
        with ThreadPoolExecutor(number) as pool:
            return list(pool.map(ask, range(number)))
"""


def ask(bed: PlatformBed, *code: str, **environment: str) -> Any:
    return bed.ask("\n".join(map(textwrap.dedent, code)), **environment)


def test_it_is_found_once_for_all_threads(bed: PlatformBed) -> None:
    bed.offer("slow", SLOW)
    said = ask(
        bed, THREADS, "found = all_at_once()\nsay(len(set(map(id, found))), found[0].qualname)", VPLUG_PLATFORM="slow"
    )
    assert said == [1, "acme.Slow"]
    assert bed.notes() == ["called"]


def test_what_is_known_is_told_at_once_to_plugins_too(bed: PlatformBed) -> None:
    bed.offer("nested", "import vplug_rs\ndef run(): return 'acme.After' + vplug_rs.get_platform().qualname[-1]\n")
    said = ask(
        bed,
        """
        first = vplug_rs.get_platform()
        from vplug_rs.platforms import resolution
        resolution.resolve = None
        say(vplug_rs.get_platform() is first, [probe.qualname for probe in outside.ask().probes])
        """,
        VPLUG_PLATFORM="acme.platform.P",
    )
    assert said == [True, ["acme.AfterP"]]


def test_other_threads_run_while_one_finds_it(bed: PlatformBed) -> None:
    bed.offer("slow", SLOW)
    said = ask(
        bed,
        """
        threads = [threading.Thread(target=vplug_rs.get_platform) for _ in range(2)]
        [thread.start() for thread in threads]
        ticks = 0
        while any(thread.is_alive() for thread in threads):
            time.sleep(0.01)
            ticks += 1
        say(ticks > 20)
        """,
        VPLUG_PLATFORM="slow",
    )
    assert said == [True]


def test_what_is_unknown_is_told_to_those_who_waited_and_not_kept(bed: PlatformBed) -> None:
    said = ask(
        bed,
        UNKNOWN,
        THREADS,
        """
        first = all_at_once()
        say([one.warnings for one in first] == [first[0].warnings] * 8, len(calls), vplug_rs.get_platform().warnings,
            len(calls), seen)
        """,
    )
    assert said == [True, 1, ["look 2"], 2, ["PluginWarning: look 1", "PluginWarning: look 2"]]


def test_an_error_is_told_to_those_who_waited_and_not_kept(bed: PlatformBed) -> None:
    bed.offer(
        "broken",
        NOTE + "import time\ndef run():\n    note('called')\n    time.sleep(1)\n    raise OSError('no driver')\n",
    )
    said = ask(
        bed,
        """
        errors = []
        start = threading.Barrier(4)
        def get():
            start.wait()
            try:
                vplug_rs.get_platform()
            except vplug_rs.PlatformError as error:
                errors.append(str(error))
        threads = [threading.Thread(target=get) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        start = threading.Barrier(1)
        get()
        say(len(errors), len(set(errors)), errors[0])
        """,
        VPLUG_PLATFORM="broken",
    )
    assert said[:2] == [5, 1]
    assert "OSError: no driver" in said[2]
    assert bed.notes() == ["called"] * 2


def test_a_traceback_shows_the_next_step_once_whoever_raises_it_and_wherever_it_is_sent(bed: PlatformBed) -> None:
    bed.offer("slow", "import time\ndef run():\n    time.sleep(1)\n    raise OSError('no driver')\n")
    said = ask(
        bed,
        """
        import pickle, traceback
        texts = []
        start = threading.Barrier(3)
        def get():
            start.wait()
            try:
                vplug_rs.get_platform()
            except vplug_rs.PlatformError as error:
                texts.append("".join(traceback.format_exception(error)))
                sent = pickle.loads(pickle.dumps(error))
                texts.append("".join(traceback.format_exception(sent)))
        threads = [threading.Thread(target=get) for _ in range(3)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        say([text.count("\\nmend or uninstall acme-slow 1.0") for text in texts])
        """,
        VPLUG_PLATFORM="slow",
    )
    assert said == [[1] * 6]


NESTED = "the platform is asked for while it is being found, further out in this very thread"


@pytest.mark.parametrize(
    "where", ["def run():\n    found = vplug_rs.get_platform()\n", "found = vplug_rs.get_platform()\n"]
)
def test_a_plugin_that_asks_for_the_platform_is_told_so_whoever_asks_it(bed: PlatformBed, where: str) -> None:
    more = "" if "def" in where else "def run():\n"
    bed.offer("nested", f"import vplug_rs\n{where}{more}    return 'acme.Nested'\n")
    said = ask(
        bed,
        """
        from vplug_rs.platforms.resolution import resolve
        def told(ask):
            try:
                return ask()
            except vplug_rs.PlatformError as error:
                return str(error)
        def statuses(asked): return [[probe.status, probe.reason] for probe in asked.probes]
        isolated, here = outside.ask_isolated(), outside.ask()
        say(statuses(isolated), statuses(here), told(vplug_rs.get_platform), told(resolve))
        """,
        VPLUG_PLATFORM="nested",
    )
    step = "call" if "def" in where else "import"
    reason = f"it failed at {step}: PlatformError: {NESTED}"
    assert said[:2] == [[["unknown", reason]]] * 2
    assert said[2] == said[3] and reason in said[2]


def test_a_plugin_may_ask_what_is_here(bed: PlatformBed) -> None:
    bed.offer(
        "looks",
        """
        from vplug_rs import platforms
        def run():
            return f"acme.{len(platforms.probe(active=False))}probes".replace(".9", ".Nine")
        """,
    )
    said = ask(
        bed,
        "say([[p.qualname for p in how().probes] for how in (outside.ask_isolated, outside.ask)])",
    )
    assert said == [[["acme.Nineprobes"]] * 2]


def test_threads_that_wait_for_each_other_are_seen(bed: PlatformBed) -> None:
    bed.offer(
        "one",
        """
        from vplug_rs import PluginLoader, Policy
        def run():
            PluginLoader("acme.others", policy=Policy()).load()
            return "acme.One"
        """,
    )
    other = """
        import time, vplug_rs
        time.sleep(1)
        try:
            vplug_rs.get_platform()
        except Exception as error:
            said = type(error).__name__
        def run(): ...
    """
    build(bed.site, dist("acme-other", "1.0", "[acme.others]\nother = other_mod:run\n"))
    build(bed.site, {"other_mod.py": textwrap.dedent(other)})
    said = ask(
        bed,
        """
        loader = PluginLoader("acme.others", policy=Policy())
        other = threading.Thread(target=loader.load)
        other.start()
        time.sleep(0.5)
        found = vplug_rs.get_platform()
        other.join()
        import other_mod
        say(found.qualname, other_mod.said)
        """,
        VPLUG_PLATFORM="one",
    )
    assert said == ["acme.One", "LoadCycleError"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_takes_over_what_is_known(bed: PlatformBed) -> None:
    bed.offer("slow", SLOW)
    said = ask(
        bed,
        """
        vplug_rs.get_platform()
        child = os.fork()
        if not child:
            os._exit(0 if vplug_rs.get_platform().qualname == "acme.Slow" else 1)
        say(os.waitpid(child, 0)[1])
        """,
        VPLUG_PLATFORM="slow",
    )
    assert (said, bed.notes()) == ([0], ["called"])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_forked_while_another_thread_finds_it_finds_it_itself(bed: PlatformBed) -> None:
    bed.offer("slow", SLOW)
    said = ask(
        bed,
        """
        thread = threading.Thread(target=vplug_rs.get_platform)
        thread.start()
        time.sleep(0.4)
        child = os.fork()
        if not child:
            os._exit(0 if vplug_rs.get_platform().qualname == "acme.Slow" else 1)
        status = os.waitpid(child, 0)[1]
        thread.join()
        say(status, vplug_rs.get_platform().qualname)
        """,
        VPLUG_PLATFORM="slow",
    )
    assert (said, bed.notes()) == ([0, "acme.Slow"], ["called"] * 2)


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_ctrl_c_ends_the_wait_for_another_thread(bed: PlatformBed) -> None:
    bed.offer("slow", SLOW.replace("time.sleep(1)", "time.sleep(30)"))
    code = """
        import sys, threading, time, vplug_rs
        threading.Thread(target=vplug_rs.get_platform, daemon=True).start()
        time.sleep(0.5)
        try:
            print("waiting", flush=True)
            vplug_rs.get_platform()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path[:0] = [{str(bed.site)!r}]\n{textwrap.dedent(code)}"],
        env=clean_environment(PYTHONPATH=str(shared_import_root()), VPLUG_PLATFORM="slow"),
        cwd=bed.folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=10)[0] == "interrupted\n"
    assert process.returncode == 0


def test_it_can_be_forgotten(bed: PlatformBed) -> None:
    bed.offer("mine", NOTE + "def run():\n    note('called')\n    return os.environ['ACME']\n")
    said = ask(
        bed,
        """
        from vplug_rs.platforms.current import reset_platform
        first = vplug_rs.get_platform().qualname
        os.environ["ACME"] = "acme.B"
        kept = vplug_rs.get_platform().qualname
        reset_platform()
        say(first, kept, vplug_rs.get_platform().qualname)
        """,
        VPLUG_PLATFORM="mine",
        ACME="acme.A",
    )
    assert (said, bed.notes()) == (["acme.A", "acme.A", "acme.B"], ["called"] * 2)


def test_who_asked_first_is_known(bed: PlatformBed) -> None:
    said = ask(
        bed,
        """
        from vplug_rs.platforms.current import first_asked
        before = first_asked()
        def somebody(): return vplug_rs.get_platform()
        def somebody_else(): return vplug_rs.get_platform()
        somebody(), somebody_else()
        say(before, "in somebody" in first_asked(), "in somebody_else" in first_asked())
        """,
        VPLUG_PLATFORM="acme.platform.P",
    )
    assert said == ["", True, False]


# the object


class Here:
    """A platform that can be made."""


class Broken:
    """One that cannot."""

    def __init__(self) -> None:
        raise SystemExit("no")


def chosen(qualname: str) -> Resolution:
    return Resolution("builtin", platform="cuda", qualname=qualname, probes=[present("cuda")])


def test_the_platform_object_is_made_without_arguments() -> None:
    assert type(current.load(chosen(f"{__name__}.Here"))) is Here


@pytest.mark.parametrize(
    ("qualname", "text", "hint"),
    [
        ("nonsuch.platform.P", "cannot be imported: ModuleNotFoundError", "Install what provides `nonsuch`."),
        (f"{__name__}.Nonsuch", "cannot be imported: AttributeError", "does not have it"),
        (f"{__name__}.Broken", "cannot be made: SystemExit: no", ""),
        ("os.sep", "cannot be made: TypeError", ""),
    ],
)
def test_a_class_that_will_not_do_is_an_error_that_names_the_platform(qualname: str, text: str, hint: str) -> None:
    with pytest.raises(PlatformLoadError) as caught:
        current.load(chosen(qualname))
    assert str(caught.value).startswith(f"the platform cuda (`{qualname}`) {text}")
    assert hint in (caught.value.hint or "")
    assert caught.value.qualname == qualname
    assert caught.value.__cause__ is not None


def test_without_a_platform_there_is_nothing_to_load() -> None:
    with pytest.raises(PlatformAbsentError) as caught:
        current.load(Resolution("none"))
    assert "VLLM_TARGET_DEVICE=cpu" in str(caught.value.hint)


def test_it_is_a_public_name_that_loads_late(tmp_path: Path) -> None:
    code = "import sys, vplug_rs; print('vplug_rs.platforms' in sys.modules, callable(vplug_rs.get_platform))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=clean_environment(PYTHONPATH=str(shared_import_root())),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False True\n"
