"""The loader, case by case: XA01 to XA12 of the public reports, in fresh processes with real files."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interpreters import clean_environment, shared_import_root
from sites import build, dist

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUP = "demo.plugins"
HEAD = """
import json, os, sys, threading, time, warnings
import vplug_rs
from vplug_rs import Policy, PluginLoader
G = "demo.plugins"
def say(*values): print(json.dumps(values, default=str), flush=True)
def names(plugins): return [p.name for p in plugins]
seen = []
warnings.simplefilter("always")
warnings.showwarning = lambda message, category, *rest: seen.append(f"{category.__name__}: {message}")
"""


class Bed:
    """A site with plugins, and processes that load them."""

    def __init__(self, folder: Path) -> None:
        self.site = folder / "site"
        self.site.mkdir()
        self.folder = folder

    def plugin(self, name: str, source: str = "def run():\n    return 'ran'\n", value: str = "", **more: Any) -> Bed:
        """Add `NAME-1.0.dist-info` and `NAME_mod.py`."""
        points = f"[{GROUP}]\n{name} = {value or f'{name}_mod:run'}\n"
        build(self.site, dist(more.pop("project", name), more.pop("version", "1.0"), points, **more))
        build(self.site, {f"{name}_mod.py": textwrap.dedent(source)})
        return self

    def run(
        self, code: str, *options: str, timeout: float = 60, environment: dict[str, str] | None = None
    ) -> list[Any]:
        """Run code in a fresh process; give each list that it said."""
        done = self.process(code, *options, timeout=timeout, environment=environment)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def process(
        self, code: str, *options: str, timeout: float = 60, environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                sys.executable,
                *options,
                "-c",
                f"import sys; sys.path[:0] = [{str(self.site)!r}]\n{HEAD}{textwrap.dedent(code)}",
            ],
            env=clean_environment(PYTHONPATH=str(shared_import_root()), **(environment or {})),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    return Bed(tmp_path)  # type: ignore[return-value]


TOUCH = "import os\nos.close(os.open('touched.txt', os.O_CREAT))\n"


def test_xa01_what_is_not_allowed_is_never_imported(bed: Bed) -> None:
    bed.plugin("good").plugin("loud", TOUCH + "raise SystemExit(1)\n")
    (said,) = bed.run("""
        loader = PluginLoader(G, policy=Policy(["good"]))
        loaded = names(loader.load())
        loud, = [p for p in loader.report().plugins if p.name == "loud"]
        say(loaded, loud.state, loud.rule, "loud_mod" in sys.modules, seen)
    """)
    assert said == [["good"], "filtered", "it is not on the allowlist in code", False, []]
    assert not (bed.folder / "touched.txt").exists()


def test_xa02_a_name_that_matches_nothing_is_told_once_and_refused_when_strict(bed: Bed) -> None:
    bed.plugin("good", TOUCH + "run = print\n")
    relaxed, strict = bed.run("""
        loader = PluginLoader(G, policy=Policy(["good", "goood"]))
        say(names(loader.load()), seen)
        os.remove("touched.txt")
        del sys.modules["good_mod"]
        loader.reset()
        try:
            PluginLoader(G, policy=Policy(["good", "goood"], strict=True)).load()
        except vplug_rs.PolicyError as error:
            say(str(error), error.hint, "good_mod" in sys.modules)
    """)
    text = "`goood` in code names no plugin in demo.plugins; `good` is nearest"
    assert relaxed == [["good"], [f"PluginWarning: {text}"]]
    assert strict == [f"{text}; nothing was loaded", "Correct the name, or take it out.", False]
    assert not (bed.folder / "touched.txt").exists()


@pytest.mark.parametrize(
    ("mode", "loaded", "told"),
    [
        ("vllm", [], ["` x` in VLLM_PLUGINS", "`x` differs", "` y` in VLLM_PLUGINS", "`Y` differs"]),
        ("own", ["x"], ["`y` in VLLM_PLUGINS", "`Y` differs"]),
    ],
)
def test_xa03_blanks_and_case(bed: Bed, mode: str, loaded: list[str], told: list[str]) -> None:
    bed.plugin("x").plugin("Y")
    ((found, warned),) = bed.run(
        f"""
        policy = Policy.vllm() if {mode!r} == "vllm" else Policy.from_env("VLLM_PLUGINS")
        say(names(PluginLoader(G, policy=policy).load()), " | ".join(seen))
        """,
        environment={"VLLM_PLUGINS": " x, y"},
    )
    assert found == loaded
    for part in told:
        assert part in warned


@pytest.mark.parametrize("mode", ["vllm", "own"])
@pytest.mark.parametrize(("value", "loaded"), [(None, ["x", "y"]), ("", []), (",", []), ("x,,y", ["x", "y"])])
def test_xa04_unset_empty_and_comma(bed: Bed, mode: str, value: str | None, loaded: list[str]) -> None:
    bed.plugin("x").plugin("y")
    build(bed.site, dist("nameless", "1", f"[{GROUP}]\n = x_mod:run\n"))
    ((found, rules),) = bed.run(
        f"""
        policy = Policy.vllm() if {mode!r} == "vllm" else Policy.from_env("VLLM_PLUGINS")
        loader = PluginLoader(G, policy=policy)
        say(names(loader.load()), {{p.name: p.rule for p in loader.report().plugins}})
        """,
        environment={} if value is None else {"VLLM_PLUGINS": value},
    )
    assert found == loaded
    assert rules[""] == "its name is empty, so no list can name it"
    if not loaded:
        assert rules["x"] == "VLLM_PLUGINS is an empty list, which allows nothing"


def test_xa05_a_denial_wins(bed: Bed) -> None:
    bed.plugin("a").plugin("b", TOUCH, project="beta-tools")
    by_name, by_project = bed.run("""
        say(names(PluginLoader(G, policy=Policy(["a", "b"], ["b"])).load()))
        say(names(PluginLoader(G, policy=Policy(deny=["dist:Beta.Tools"])).load()))
    """)
    assert by_name == by_project == [["a"]]
    assert not (bed.folder / "touched.txt").exists()


def test_xa06_one_bad_plugin_among_three(bed: Bed) -> None:
    bed.plugin("p1").plugin("p2", "import zzz_missing\n").plugin("p3")
    relaxed, warned, strict = bed.run("""
        loader = PluginLoader(G)
        loaded = names(loader.load())
        f = next(p for p in loader.report().plugins if p.name == "p2").failure
        say(loaded, f.group, f.name, f.distribution, f.version, f.metadata_path, f.phase, type(f.exception).__name__,
            str(f.exception), f.traceback.splitlines()[1], f.hint, f.seconds >= 0)
        say(seen)
        loader.reset()
        for name in ("p1_mod", "p3_mod"):
            del sys.modules[name]
        try:
            PluginLoader(G, policy=Policy(strict=True)).load()
        except vplug_rs.PluginLoadError as error:
            say([f.name for f in error.failures], "zzz_missing" in str(error), "p3_mod" in sys.modules)
    """)
    where = str(bed.site / "p2-1.0.dist-info")
    assert relaxed[:9] == [
        ["p1", "p3"],
        GROUP,
        "p2",
        "p2",
        "1.0",
        where,
        "import",
        "ModuleNotFoundError",
        "No module named 'zzz_missing'",
    ]
    assert f'File "{bed.site / "p2_mod.py"}", line 1' in relaxed[9]
    assert "zzz_missing" in relaxed[10]
    assert len(warned[0]) == 1
    assert "p2" in warned[0][0]
    assert strict == [["p2"], True, True]


def test_xa07_what_is_contained_and_what_passes(bed: Bed) -> None:
    bed.plugin("leaves", "raise SystemExit(3)\n").plugin(
        "stops", "import os\nif not os.path.exists('go'): raise KeyboardInterrupt\ndef run(): pass\n"
    )
    first, second = bed.run("""
        loader = PluginLoader(G)
        try:
            loader.load()
        except KeyboardInterrupt:
            say("passed", {p.name: (p.state, p.failure and p.failure.phase) for p in loader.report().plugins})
        open("go", "w").close()
        say(names(loader.load()))
    """)
    assert first == ["passed", {"leaves": ["failed", "import"], "stops": ["found", None]}]
    assert second == [["stops"]]


def test_xa08_a_value_of_the_wrong_kind(bed: Bed) -> None:
    bed.plugin("number", "run = 3\n").plugin("module", "def function(): pass\n", value="module_mod")
    (said,) = bed.run("""
        loader = PluginLoader(G)
        loader.load()
        say({p.name: (p.failure.phase, str(p.failure.exception), p.failure.hint) for p in loader.report().plugins})
    """)
    assert said[0]["number"] == ["resolve", "int is not callable", None]
    phase, text, hint = said[0]["module"]
    assert (phase, text) == ("resolve", "the module `module_mod` is not callable")
    assert "`module_mod:function`" in hint


def test_xa09_once_with_waiters(bed: Bed) -> None:
    bed.plugin(
        "slow",
        "import time\ntime.sleep(0.3)\ndef run():\n    open('lines.txt', 'a').write('x\\n')\n    return object()\n",
    )
    (said,) = bed.run("""
        got, lines = [], []
        def work():
            plugin, = PluginLoader(G, call=True).load()
            lines.append(open("lines.txt").read())
            got.append((id(plugin.object), id(plugin.result)))
        threads = [threading.Thread(target=work) for _ in range(8)]
        [t.start() for t in threads]; [t.join() for t in threads]
        say(len(set(got)), len(got), lines)
    """)
    assert said == [1, 8, ["x\n"] * 8]


def test_xa10_done_only_on_success(bed: Bed) -> None:
    source = """
        import os
        def run():
            open("{0}.txt", "a").write("x")
            if {1} and "NOT_YET" in os.environ:
                raise OSError("not yet")
    """
    bed.plugin("early", source.format("early", 1)).plugin("fine", source.format("fine", 0))
    first, second = bed.run(
        """
        loader = PluginLoader(G, call=True)
        say(names(loader.load()), {p.name: p.failure and p.failure.phase for p in loader.report().plugins})
        del os.environ["NOT_YET"]
        say(names(loader.load()), open("early.txt").read(), open("fine.txt").read())
        """,
        environment={"NOT_YET": "1"},
    )
    assert first == [["fine"], {"early": "call", "fine": None}]
    assert second == [["early", "fine"], "xx", "x"]


def test_xa11_re_entry(bed: Bed) -> None:
    bed.plugin("a", "import main_of_test\ndef run():\n    main_of_test.inner()\n").plugin("b")
    (said,) = bed.run(
        """
        import types
        calls = []
        main_of_test = types.ModuleType("main_of_test")
        def inner():
            loader = PluginLoader(G, call=True)
            calls.append((names(loader.load()), {p.name: p.state for p in loader.report().plugins}))
        main_of_test.inner = inner
        sys.modules["main_of_test"] = main_of_test
        say(names(PluginLoader(G, call=True).load()), calls)
    """,
        timeout=20,
    )
    assert said == [["a", "b"], [[["b"], {"a": "loading", "b": "loaded"}]]]


@pytest.mark.parametrize(("policy", "runs", "pids"), [("inherit", "x", 2), ("rerun", "xx", 1)])
def test_xa12_a_forked_child(bed: Bed, policy: str, runs: str, pids: int) -> None:
    bed.plugin("p", "def run():\n    open('lines.txt', 'a').write('x')\n    return []\n")
    said = bed.run(f"""
        loader = PluginLoader(G, call=True, fork={policy!r})
        loader.load()
        sys.stdout.flush()
        child = os.fork()
        if not child:
            plugin, = loader.load()
            say("child", open("lines.txt").read(), len(plugin.processes), plugin.processes[-1] == os.getpid())
            os._exit(0)
        say("parent", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """)
    assert ["child", runs, pids, True] in said
    assert ["parent", 0] in said


def test_xa12_a_spawned_child_runs_once_itself(bed: Bed) -> None:
    bed.plugin("p", "def run():\n    open('lines.txt', 'a').write('x')\n")
    source = """
        import vplug_rs
        def work():
            for _ in range(2):
                vplug_rs.PluginLoader("demo.plugins", call=True).load()
    """
    build(bed.site, {"child_of_test.py": textwrap.dedent(source)})
    (said,) = bed.run("""
        import multiprocessing, child_of_test
        child_of_test.work()
        child = multiprocessing.get_context("spawn").Process(target=child_of_test.work)
        child.start(); child.join()
        say(child.exitcode, open("lines.txt").read())
    """)
    assert said == [0, "xx"]


def test_get_imports_that_one_plugin_only(bed: Bed) -> None:
    bed.plugin("one").plugin("two", TOUCH)
    (said,) = bed.run("""
        loader = PluginLoader(G, call=True)
        plugin = loader.get("one")
        say(plugin.name, plugin.object(), plugin.result, plugin.state, plugin.distribution.name, plugin.version,
            plugin.seconds > 0, loader.get("one") is plugin, "two_mod" in sys.modules)
    """)
    assert said == ["one", "ran", "ran", "loaded", "one", "1.0", True, True, False]


def test_an_upgrade_and_an_uninstall_are_seen_by_the_next_load(bed: Bed) -> None:
    bed.plugin("p", "def run(): return 1\n")
    (said,) = bed.run(f"""
        import shutil
        site = {str(bed.site)!r}
        loader = PluginLoader(G, call=True)
        got = [[(p.version, p.result) for p in loader.load()], loader.get("p").result]
        shutil.rmtree(site + "/p-1.0.dist-info")
        os.mkdir(site + "/p-2.0.dist-info")
        open(site + "/p-2.0.dist-info/METADATA", "w").write("Name: p\\nVersion: 2.0\\n")
        open(site + "/p-2.0.dist-info/entry_points.txt", "w").write("[demo.plugins]\\np = new_mod:run\\n")
        open(site + "/new_mod.py", "w").write("def run(): return 2\\n")
        got += [[(p.version, p.result) for p in loader.load()], loader.get("p").result]
        shutil.rmtree(site + "/p-2.0.dist-info")
        got += [names(loader.load())]
        try:
            loader.get("p")
        except vplug_rs.PluginNotFoundError:
            got.append("gone")
        say(*got)
    """)
    assert said == [[["1.0", 1]], 1, [["2.0", 2]], 2, [], "gone"]


def test_get_says_why_not(bed: Bed) -> None:
    bed.plugin("good").plugin("bad", "1 / 0\n").plugin("kept", project="kept-out")
    (said,) = bed.run("""
        loader = PluginLoader(G, policy=Policy(deny=["dist:kept-out"]))
        said = {}
        for name in ("goood", "kept", "bad"):
            try:
                loader.get(name)
            except vplug_rs.VplugError as error:
                said[name] = (type(error).__name__, str(error), error.hint, type(error.__cause__).__name__)
        say(said)
    """)
    assert said[0] == {
        "goood": [
            "PluginNotFoundError",
            "no installed distribution offers `goood` in demo.plugins",
            "Did you mean `good`?",
            "NoneType",
        ],
        "kept": [
            "PluginRefusedError",
            "plugin `kept` in demo.plugins may not load: `!dist:kept-out` in code denies it",
            None,
            "NoneType",
        ],
        "bad": [
            "PluginLoadError",
            f"plugin `bad` of bad 1.0 failed at import (`bad_mod:run` in {GROUP}): ZeroDivisionError: division by zero",
            None,
            "ZeroDivisionError",
        ],
    }


def test_required_plugins_are_missed_before_anything_is_imported(bed: Bed) -> None:
    bed.plugin("here", TOUCH + "run = print\n")
    (said,) = bed.run("""
        try:
            PluginLoader(G, policy=Policy(require=["here", "gone"])).load()
        except vplug_rs.PolicyError as error:
            say(str(error), "here_mod" in sys.modules)
    """)
    assert said[0].startswith("code requires `gone` in demo.plugins")
    assert said[1] is False


@pytest.mark.parametrize(
    ("collision", "loaded"),
    [("first", ["alpha"]), ("last", ["beta"]), ("all", ["alpha", "beta"]), ("error", "PolicyError")],
)
def test_two_distributions_with_one_name(bed: Bed, collision: str, loaded: Any) -> None:
    for project in ("alpha", "beta"):
        build(bed.site, dist(project, "1.0", f"[{GROUP}]\nsame = {project}_mod:run\n"))
        build(bed.site, {f"{project}_mod.py": f"def run(): return {project!r}\n"})
    (said,) = bed.run(f"""
        try:
            found = [p.object() for p in PluginLoader(G, policy=Policy(collision={collision!r})).load()]
        except vplug_rs.PolicyError as error:
            found = type(error).__name__
        say(found, len(seen), sorted(m for m in sys.modules if m in ("alpha_mod", "beta_mod")))
    """)
    assert said[0] == loaded
    assert said[1] == (1 if collision in {"first", "last"} else 0), "an overwriting is never silent"
    imported = [] if loaded == "PolicyError" else [f"{name}_mod" for name in loaded]
    assert said[2] == imported, "the other one is not imported"


def test_an_explicit_order_comes_first(bed: Bed) -> None:
    bed.plugin("a").plugin("b").plugin("c")
    (said,) = bed.run("""say(names(PluginLoader(G, policy=Policy(order=["c", "b"]))))""")
    assert said == [["c", "b", "a"]]


def test_a_condition_needs_a_module_that_can_be_found_and_imports_nothing(bed: Bed) -> None:
    bed.plugin("with_it").plugin("without").plugin("free")
    build(bed.site, {"wanted_mod.py": TOUCH})
    (said,) = bed.run("""
        policy = Policy(when={"with_it": "wanted_mod", "without*": "zzz_missing.part"})
        loader = PluginLoader(G, policy=policy)
        say(names(loader.load()), {p.name: p.reason for p in loader.report().plugins}, "wanted_mod" in sys.modules)
    """)
    assert said == [["free", "with_it"], {"free": "open", "with_it": "open", "without": "condition"}, False]
    assert not (bed.folder / "touched.txt").exists()


def test_a_plugin_that_excludes_the_host_is_refused_before_import(bed: Bed) -> None:
    for name, requirement in (
        ("old", "Host_Name <2"),
        ("new", "host.name>=2,<3"),
        ("other", "elsewhere<1"),
        ("marked", "host-name<2; extra == 'x'"),
    ):
        bed.plugin(name, METADATA=f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Dist: {requirement}\n")
    (said,) = bed.run("""
        loader = PluginLoader(G, policy=Policy(host=("host-name", "2.5")))
        old, = [p for p in loader.report().plugins if p.name == "old"]
        say(names(loader.load()), [old.rule], "old_mod" in sys.modules)
    """)
    assert said == [["marked", "new", "other"], ["it requires `Host_Name <2`, and the host is host-name 2.5"], False]


def test_nothing_refused_is_ever_imported(bed: Bed) -> None:
    for name in ("a", "b", "c", "d"):
        bed.plugin(
            name,
            f"import os\nos.close(os.open('imported-{name}', os.O_CREAT))\ndef run(): pass\n",
            project=f"dist-{name}",
        )
    build(
        bed.site,
        dist("double", "1.0", f"[{GROUP}]\na = double_mod:run\n"),
    )
    build(bed.site, {"double_mod.py": "import os\nos.close(os.open('imported-double', os.O_CREAT))\ndef run(): pass\n"})
    rules: list[tuple[dict[str, Any] | str | None, str]] = [
        ({"allow": []}, ""),
        ({"allow": ["a"]}, "a"),
        ({"allow": ["b*", "!b"]}, ""),
        ({"allow": ["zzz"], "strict": True}, ""),
        ({"allow": ["dist:dist-c"]}, "c"),
        ({"deny": ["?"]}, ""),
        ({"deny": ["dist:dist-a"]}, "b c d double"),
        ({"explicit_only": [GROUP]}, ""),
        ({"groups": {GROUP: {"allow": ["d"]}}}, "d"),
        ({"groups": {"another": {"allow": ["d"]}}, "allow": ["c"]}, "c"),
        ({"when": {"*": "zzz_missing"}}, ""),
        ({"require": ["zzz"]}, ""),
        ({"collision": "error"}, ""),
        ({"collision": "last", "allow": ["a"]}, "double"),
        ({"collision": "all", "allow": ["a"]}, "a double"),
        ({"host": ("x", "1"), "allow": ["c"]}, "c"),
        # and vLLM's list
        (None, "b c d double"),
        ("", ""),
        (",", ""),
        ("a", "double"),
        (" a", ""),
        ("A", ""),
        ("b,d", "b d"),
    ]
    said = bed.run(f"""
        import glob
        def imported():
            found = sorted(file[9:] for file in glob.glob("imported-*"))
            for file in glob.glob("imported-*"):
                os.remove(file)
            for module in [m for m in sys.modules if m.endswith("_mod")]:
                del sys.modules[module]
            return found
        for rules, _ in {rules!r}:
            if isinstance(rules, dict):
                policy = Policy(**rules)
            else:
                os.environ.pop("VLLM_PLUGINS", None)
                if rules is not None:
                    os.environ["VLLM_PLUGINS"] = rules
                policy = Policy.vllm()
            loader = PluginLoader(G, policy=policy)
            loader.reset()
            try:
                loaded = sorted(p.point.module[:-4] for p in loader.load())
            except vplug_rs.PolicyError:
                loaded = []
            by_load = imported()
            loader.reset()
            for name in "abcd":
                try:
                    loader.get(name)
                except (vplug_rs.PolicyError, vplug_rs.PluginRefusedError):
                    pass
            say(loaded, by_load, imported())
    """)
    assert len(said) == len(rules)
    for (rule, expected), (loaded, by_load, by_get) in zip(rules, said, strict=True):
        assert loaded == by_load == expected.split(), rule
        assert set(by_get) <= set(expected.split()), rule


def test_a_report_shows_loaded_filtered_and_broken(bed: Bed) -> None:
    bed.plugin("works").plugin("kept").plugin("broken", "import zzz_missing\n")
    text, data = bed.run("""
        loader = PluginLoader(G, policy=Policy(deny=["kept"]), call=True)
        loader.load()
        say(str(loader.report()))
        say(loader.report().json())
    """)
    lines = text[0].splitlines()
    assert lines[0].split() == ["NAME", "DISTRIBUTION", "STATE", "MS", "WHY"]
    assert [line.split()[:4] for line in lines[1:4]] == [
        ["broken", "broken", "1.0", "failed"],
        ["kept", "kept", "1.0", "filtered"],
        ["works", "works", "1.0", "loaded"],
    ]
    assert "import: ModuleNotFoundError: No module named 'zzz_missing'" in lines[1]
    assert lines[4] == "demo.plugins: 3 plugins, 1 loaded"
    rows = {row["name"]: row for row in json.loads(data[0])["plugins"]}
    assert rows["works"]["modules"] == ["works_mod"]
    assert rows["works"]["import_seconds"] > 0
    assert rows["works"]["call_seconds"] >= 0
    assert rows["works"]["initialised_cuda"] is False
    assert (rows["kept"]["reason"], rows["kept"]["failure"]) == ("denied", None)
    assert rows["broken"]["failure"]["attempts"] == 1
    assert "zzz_missing" in rows["broken"]["failure"]["traceback"]


def test_a_partly_initialised_module_is_said_to_be_that(bed: Bed) -> None:
    source = """
        import vplug_rs
        loader = vplug_rs.PluginLoader("demo.plugins")
        loader.load()
        seen = [p.failure for p in loader.report().plugins]
        def run(): pass
    """
    bed.plugin("circular", source)
    (said,) = bed.run("""
        import circular_mod
        failure, = circular_mod.seen
        say(failure.phase, failure.hint)
    """)
    assert said[0] == "resolve"
    assert "`circular_mod` is only partly initialised" in said[1]


def test_a_fingerprint_tells_what_differs(bed: Bed) -> None:
    bed.plugin("a").plugin("b")
    ((one,),) = bed.run("""
        f = PluginLoader(G).fingerprint()
        say([f.digest, f.rows])
    """)
    bed.plugin("c")
    (bed.site / "b-1.0.dist-info" / "METADATA").write_text("Name: b\nVersion: 1.1\n", encoding="utf-8")
    (said,) = bed.run(f"""
        from vplug_rs.loading.fingerprint import Fingerprint
        there = Fingerprint({one[1]!r})
        here = PluginLoader(G).fingerprint()
        say(there.digest == {one[0]!r}, here == there, there.difference(here), here.difference(here))
    """)
    assert said[:2] == [True, False]
    lines = said[2].splitlines()
    assert [line.split(":")[0] for line in lines] == ["- b", "+ b", "+ c"]
    assert "b 1.0" in lines[0]
    assert "b 1.1" in lines[1]
    assert said[3] == ""


def test_vllm_shaped_functions(bed: Bed) -> None:
    points = "[vllm.general_plugins]\nok = general_mod:ok\nbad = general_mod:bad\n"
    build(bed.site, dist("general", "1.0", points))
    build(
        bed.site,
        {"general_mod.py": "calls = []\ndef ok(): calls.append('ok')\ndef bad(): calls.append('bad'); 1 / 0\n"},
    )
    (said,) = bed.run("""
        vplug_rs.load_general_plugins()
        vplug_rs.load_general_plugins()
        import general_mod
        found = vplug_rs.load_plugins_by_group("vllm.general_plugins")
        say(general_mod.calls, [name for name in found if name != "vplug_lora"],  # which is ours
            vplug_rs.load_plugins_by_group("vllm.general_plugins")["ok"] is general_mod.ok, len(seen))
    """)
    assert said[0] == ["ok", "bad", "bad"], "a success runs once, a failure is tried again"
    assert said[1:3] == [["ok", "bad"], True]


def test_wrong_arguments_are_refused(bed: Bed) -> None:
    (said,) = bed.run("""
        said = []
        for arguments in (dict(kind="thing"), dict(fork="maybe")):
            try:
                PluginLoader(G, **arguments)
            except ValueError as error:
                said.append(str(error))
        say(said)
    """)
    assert len(said[0]) == 2


def test_warnings_as_errors_stop_nobody(bed: Bed) -> None:
    bed.plugin("bad", "1 / 0\n").plugin("good")
    done = bed.process("""
        warnings.resetwarnings()
        warnings.simplefilter("error")
        say(names(PluginLoader(G, policy=Policy(["bad", "good", "goood"])).load()))
    """)
    assert (done.returncode, done.stdout) == (0, '[["good"]]\n'), done.stderr


def test_what_a_plugin_does_to_the_process_is_its_own_affair(bed: Bed) -> None:
    bed.plugin("prints", "print('noise')\nimport sys\nsys.path.append('/nowhere')\ndef run(): pass\n")
    bed.plugin(
        "threads", "import threading\nthreading.Thread(target=print, args=('thread',)).start()\ndef run(): pass\n"
    )
    done = bed.process("say(names(PluginLoader(G).load()))")
    assert done.returncode == 0
    assert '[["prints", "threads"]]' in done.stdout


def test_a_subinterpreter_is_refused_with_a_clear_error(bed: Bed) -> None:
    (bed.folder / "inside.py").write_text(
        "try:\n    import vplug_rs; vplug_rs.version\nexcept ImportError as error:\n    print(error, flush=True)\n",
        encoding="utf-8",
    )
    done = bed.process("""
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        made = interpreters.create()
        run = getattr(interpreters, "exec", None) or interpreters.run_string
        run(made, f"import sys; sys.path[:0] = {sys.path!r}; exec(open('inside.py').read())")
    """)
    assert "subinterpreters" in done.stdout, done.stdout + done.stderr
