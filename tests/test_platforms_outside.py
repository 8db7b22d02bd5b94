"""Platform plugins, asked once in a process or each in one of its own, whatever they do."""

from __future__ import annotations

import os
import sys
import sysconfig
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from sites import build, dist
from vllm_bed import VllmBed
from vplug_rs.groups import PLATFORM
from vplug_rs.platforms import outside

HEAD = """
from vplug_rs.platforms import outside
def told(asked): return [
    [p.platform, p.source, p.status, p.qualname, p.reason, p.hint, [r.as_dict() for r in p.evidence], p.isolated]
    for p in asked.probes
]
def statuses(asked): return {p.platform: p.status for p in asked.probes}
"""
NOTE = "import os\ndef note(text):\n    with open('notes.txt', 'a') as stream: stream.write(text + '\\n')\n"


class PlatformBed(VllmBed):
    """A site with platform plugins."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, PLATFORM)

    def ask(self, code: str, *options: str, **environment: str) -> Any:
        """What one piece of code said, in a process that has the plugins."""
        (said,) = self.run(HEAD + textwrap.dedent(code), *options, environment=environment)
        return said

    def notes(self) -> list[str]:
        """What plugins have noted."""
        file = self.folder / "notes.txt"
        return file.read_text("utf-8").splitlines() if file.exists() else []


@pytest.fixture
def bed(tmp_path: Path) -> PlatformBed:
    return PlatformBed(tmp_path)


def answers(source: str) -> str:
    return f"{NOTE}def run():\n    note('called ' + str(os.getpid()))\n    {source}\n"


@pytest.mark.parametrize("how", ["ask", "ask_isolated"])
def test_what_a_plugin_answers_becomes_its_probe(bed: PlatformBed, how: str) -> None:
    bed.offer("here", "def run(): return 'acme.platform.Here'\n").offer("not_here", "def run(): return None\n")
    here, not_here = bed.ask(f"say(*told(outside.{how}()))")
    isolated = how == "ask_isolated"
    assert here == [
        "here",
        "acme-here 1.0",
        "present",
        "acme.platform.Here",
        "the plugin says that its platform is to be used",
        None,
        [
            {
                "id": "here.plugin",
                "kind": "call",
                "subject": "here_mod:run",
                "result": "acme.platform.Here",
                "weight": "weak",
                "text": "the plugin says that its platform is to be used",
            }
        ],
        isolated,
    ]
    assert not_here[:4] == ["not_here", "acme-not_here 1.0", "absent", None]
    assert not_here[6][0]["weight"] == "against"


def test_each_is_called_once_in_a_process(bed: PlatformBed) -> None:
    bed.offer("once", answers("return 'acme.Once'"))
    said = bed.ask("say([p.qualname for _ in range(3) for p in outside.ask().probes])")
    assert said == [["acme.Once"] * 3]
    assert len(bed.notes()) == 1


def test_one_that_failed_is_asked_again(bed: PlatformBed) -> None:
    bed.offer(
        "late",
        """
        calls = []
        def run():
            calls.append(1)
            if len(calls) < 2: raise OSError("not yet")
            return "acme.Late"
        """,
    )
    assert bed.ask("say([statuses(outside.ask())['late'] for _ in range(3)])") == [["unknown", "present", "present"]]


FAULTS = {
    "raises": ("def run(): raise OSError('no driver')", "it failed at call: OSError: no driver"),
    "exits": ("def run(): raise SystemExit(3)", "it failed at call: SystemExit: 3"),
    "exits_at_import": ("raise SystemExit(4)", "it failed at import: SystemExit: 4"),
    "not_importable": ("import nonsuch", "it failed at import: ModuleNotFoundError: No module named 'nonsuch'"),
    "empty": ("def run(): return ''", "its call gave the text '', and a class's dotted name is wanted"),
    "number": ("def run(): return 7", "its call gave an object of type `int`"),
    "a_class": ("class P: pass\ndef run(): return P", "its call gave the class `P` itself"),
    "bare": ("def run(): return 'Platform'", "its call gave the text 'Platform'"),
    "no_function": ("run = 5", "it failed at resolve: TypeError: int is not callable"),
}


@pytest.mark.parametrize("how", ["ask", "ask_isolated"])
def test_what_fails_is_unknown_with_its_error_and_stops_nobody(bed: PlatformBed, how: str) -> None:
    for name, (source, _) in FAULTS.items():
        bed.offer(name, source)
    bed.offer("good", "def run(): return 'acme.Good'\n")
    found = {row[0]: row for row in bed.ask(f"say(*told(outside.{how}()))")}
    for name, (_, reason) in FAULTS.items():
        _, source, status, qualname, said, hint, evidence, _ = found[name]
        assert (source, status, qualname) == (f"acme-{name} 1.0", "unknown", None)
        assert said.startswith(reason)
        assert hint
        assert evidence[0]["weight"] == "info"
    assert found["good"][2] == "present"
    assert found["not_importable"][5].startswith("Install what provides `nonsuch`")


def test_our_own_door_does_not_count(bed: PlatformBed) -> None:
    build(bed.site, dist("other", "1.0", f"[{PLATFORM}]\nvplug_rs = vplug_rs.vllm.doors:platform\n"))
    assert bed.ask("say(told(outside.ask()), told(outside.listed()))") == [[], []]


def test_two_distributions_with_one_name_are_two(bed: PlatformBed) -> None:
    for number in (1, 2):
        build(bed.site, dist(f"acme{number}", "1.0", f"[{PLATFORM}]\nnpu = npu{number}:run\n"))
        build(bed.site, {f"npu{number}.py": f"def run(): return 'acme{number}.Npu'\n"})
    said = bed.ask("""
        say([[p.platform, p.source, p.qualname] for p in outside.ask().probes],
            [[p.source, p.status] for p in outside.ask({("acme2", "npu")}).probes])
    """)
    assert said == [
        [["npu", "acme1 1.0", "acme1.Npu"], ["npu", "acme2 1.0", "acme2.Npu"]],
        [["acme1 1.0", "skipped"], ["acme2 1.0", "present"]],
    ]


def test_vllm_plugins_keeps_out_and_a_typo_is_told(bed: PlatformBed) -> None:
    bed.offer("good", "def run(): return 'acme.Good'\n").offer("other", NOTE + "note('imported')\ndef run(): ...\n")
    code = "found = outside.{}()\nsay(statuses(found), found.warnings, found.probes[1].reason, found.probes[1].hint)"
    for how in ("ask", "ask_isolated", "listed"):
        statuses, warnings, reason, hint = bed.ask(code.format(how), VLLM_PLUGINS="good,gooood")
        assert statuses == {"good": "skipped" if how == "listed" else "present", "other": "skipped"}
        assert warnings == ["`gooood` in VLLM_PLUGINS names no plugin in vllm.platform_plugins; `good` is nearest"]
        assert "kept out" in reason
        assert hint.startswith("name `other` of acme-other 1.0 there")
    assert bed.notes() == []


def test_a_policy_file_counts_in_place_of_the_variable(bed: PlatformBed, tmp_path: Path) -> None:
    bed.offer("good", "def run(): return 'acme.Good'\n").offer("other", "def run(): ...\n")
    policy = tmp_path / "policy.toml"
    policy.write_text('deny = ["other"]\n', "utf-8")
    said = bed.ask("say(statuses(outside.ask()))", VPLUG_POLICY=str(policy), VLLM_PLUGINS="other")
    assert said == [{"good": "present", "other": "skipped"}]


def test_listing_imports_nothing(bed: PlatformBed) -> None:
    bed.offer("loud", NOTE + "note('imported')\ndef run(): ...\n")
    said = bed.ask("found = outside.listed()\nsay(told(found)[0][:3], told(found)[0][6][0]['kind'])")
    assert said == [["loud", "acme-loud 1.0", "skipped"], "dist"]
    assert bed.notes() == []


def test_a_plugin_that_declines_while_it_is_half_imported_has_not_declined(bed: PlatformBed) -> None:
    bed.offer(
        "rbln",
        """
        def run():
            try:
                from rbln_pkg import READY
            except ImportError:
                return None
            return "rbln.Platform"
        """,
        "rbln_pkg.platform:run",
    )
    build(
        bed.site,
        {
            "rbln_pkg": {
                "__init__.py": "from vplug_rs.platforms import outside\nfound = outside.ask()\nREADY = True\n",
                "platform.py": (bed.site / "rbln_mod.py").read_text("utf-8"),
            }
        },
    )
    said = bed.ask("import rbln_pkg\nsay(told(rbln_pkg.found)[0][2:6], told(outside.ask())[0][2:4])")
    status, qualname, reason, hint = said[0]
    assert (status, qualname) == ("unknown", None)
    assert "declined while `rbln_pkg` is only partly initialised" in reason
    assert hint == "Ask for the platform after the import of `rbln_pkg`."
    assert said[1] == ["present", "rbln.Platform"], "and it is asked again"


def test_a_plugin_that_asks_for_plugins_does_not_ask_itself(bed: PlatformBed) -> None:
    bed.offer(
        "nested",
        """
        from vplug_rs.platforms import outside
        inner = []
        def run():
            inner.extend(outside.ask().probes)
            return "acme.N"
        """,
    )
    said = bed.ask(
        "outside.ask()\nimport nested_mod\nsay([p.status for p in nested_mod.inner], nested_mod.inner[0].reason)"
    )
    assert said == [["unknown"], "it is being loaded further out in this very thread"]


# in processes of their own


def test_isolated_plugins_leave_no_trace_here(bed: PlatformBed) -> None:
    bed.offer(
        "prints",
        """
        import os
        print("at import")
        def run():
            print("called")
            os.write(1, b"raw")
            os.environ["ACME"] = "1"
            return "acme.P"
        """,
    )
    said = bed.ask("""
        before = dict(os.environ)
        found = outside.ask_isolated()
        say(statuses(found), "prints_mod" in sys.modules, dict(os.environ) == before)
    """)
    assert said == [{"prints": "present"}, False, True]


WILD = {
    "crashes": ("import os, signal\ndef run(): os.kill(os.getpid(), signal.SIGSEGV)", "was ended by SIGSEGV"),
    "leaves": ("import os\ndef run(): os._exit(7)", "ended with exit status 7"),
    "hangs": ("import time\ndef run():\n    while True: time.sleep(1)", "did not answer within"),
    "hangs_at_import": ("import time\nwhile True: time.sleep(1)", "did not answer within"),
}
TAME = {
    "forks": "import os\ndef run():\n    os.fork()\n    return 'acme.F'\n",
    "lingers": "import os, time\ndef run():\n    if not os.fork(): time.sleep(30)\n    return 'acme.F'\n",
    "threads": """
        import threading, time
        def run():
            threading.Thread(target=time.sleep, args=(30,)).start()
            return "acme.F"
    """,
    "floods": "def run():\n    print('x' * 3_000_000)\n    return 'acme.F'\n",
    "closes": "import os\ndef run():\n    os.close(1)\n    return 'acme.F'\n",
    "writes": 'def run():\n    print(\'{"status": "present", "qualname": "fake.F"}\')\n    return \'acme.F\'\n',
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and signals")
def test_isolated_plugins_may_do_what_they_like(bed: PlatformBed) -> None:
    for name, (source, _) in WILD.items():
        bed.offer(name, source)
    for name, source in TAME.items():
        bed.offer(name, source)
    began = time.monotonic()
    found = {row[0]: row for row in bed.ask("say(*told(outside.ask_isolated(seconds=8)))")}
    assert time.monotonic() - began < 8 + 3, "the deadline, and the start of two interpreters"
    for name, (_, reason) in WILD.items():
        assert (found[name][2], found[name][7]) == ("unknown", True)
        assert reason in found[name][4]
        assert f"acme-{name} 1.0" in found[name][5]
    assert {name: found[name][2:4] for name in TAME} == {name: ["present", "acme.F"] for name in TAME}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_what_a_child_of_an_isolated_plugin_says_is_not_the_plugins_answer(bed: PlatformBed) -> None:
    bed.offer(
        "forks",
        """
        import os, time
        def run():
            if not os.fork(): return "acme.OfTheChild"
            time.sleep(1)
            return "acme.Platform"
        """,
    )
    assert bed.ask("say([probe.qualname for probe in outside.ask_isolated().probes])") == [["acme.Platform"]]


@pytest.mark.parametrize("how", ["ask", "ask_isolated"])
def test_what_a_plugin_takes_is_told_whatever_comes_of_it(bed: PlatformBed, how: str) -> None:
    ends = {"here": "return 'acme.P'", "not_here": "return None", "raises": "raise OSError", "wrong": "return ''"}
    for name, end in ends.items():
        bed.offer(name, f"import time\ndef run():\n    time.sleep(0.2)\n    {end}\n")
    said = bed.ask(f"say({{p.platform: p.ms >= 200 for p in outside.{how}().probes}})")
    assert said == [dict.fromkeys(ends, True)]


def test_threads_of_a_plugin_keep_nobody_waiting(bed: PlatformBed) -> None:
    bed.offer("threads", TAME["threads"])
    began = time.monotonic()
    assert bed.ask("say(statuses(outside.ask_isolated()))") == [{"threads": "present"}]
    assert time.monotonic() - began < 15, "its thread takes 30 s"


def test_what_lies_in_the_current_folder_is_not_run(bed: PlatformBed) -> None:
    bed.offer("plain", "def run(): return 'acme.P'\n")
    said = bed.ask("""
        import os
        os.mkdir("here")
        os.chdir("here")
        with open("json.py", "w") as stream: stream.write("raise SystemExit(9)")
        say(statuses(outside.ask_isolated()))
    """)
    assert said == [{"plain": "present"}]


def test_the_last_words_of_a_plugin_that_died_are_told(bed: PlatformBed) -> None:
    bed.offer(
        "dies",
        "import os, sys\ndef run():\n    sys.stderr.write('no device 7\\n')\n    sys.stderr.flush()\n    os._exit(1)\n",
    )
    (row,) = bed.ask("say(*told(outside.ask_isolated()))")
    assert row[4].endswith("ended with exit status 1; its last words: no device 7")


def test_another_path_and_environment_are_those_of_the_child(tmp_path: Path) -> None:
    site = tmp_path / "elsewhere"
    build(site, dist("acme", "2.0", f"[{PLATFORM}]\nmine = acme_mine:run\nkept = acme_mine:run\n"))
    build(
        site, {"acme_mine.py": "import os, sys\ndef run(): return 'acme.' + os.environ['ACME'] + str(len(sys.path))\n"}
    )
    stdlib = Path(sysconfig.get_path("stdlib"))
    path = [str(site), str(stdlib), str(stdlib / "lib-dynload")]
    environment = {**os.environ, "ACME": "P", "VLLM_PLUGINS": "mine,nonsuch"}
    found = outside.ask_isolated(environment=environment, path=path)
    assert [(probe.platform, probe.source, probe.status, probe.qualname) for probe in found.probes] == [
        ("mine", "acme 2.0", "present", f"acme.P{len(path)}"),
        ("kept", "acme 2.0", "skipped", None),
    ]
    assert len(found.warnings) == 1
    assert "`nonsuch` in VLLM_PLUGINS" in found.warnings[0]
    assert "acme_mine" not in sys.modules
    assert [probe.status for probe in outside.listed(environment, path).probes] == ["skipped", "skipped"]


def test_without_an_interpreter_to_start_it_is_unknown(bed: PlatformBed) -> None:
    bed.offer("good", "def run(): return 'acme.Good'\n")
    (row,) = bed.ask("sys.executable = ''\nsay(*told(outside.ask_isolated()))")
    assert (row[2], row[7]) == ("unknown", False), "nothing was started"
    assert "no program to start" in row[4]
    assert "sys.executable" in row[5], "it is no fault of the plugin's author"
