"""`vplug check`: each rule is found where a sample breaks it, and nothing else is.

In `tests/data/faulty_plugins` a comment `# fault: CODE` stands on each line that is to be found.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import vplug_rs
from cli_lab import CommandLab, lab
from vplug_rs.authoring import lint, project
from vplug_rs.authoring.rules import RULES, SEVERITIES, render
from vplug_rs.errors import NotFoundError, UsageError

__all__ = ["lab"]

HERE = Path(__file__).parent
SAMPLES = HERE / "data" / "faulty_plugins"
NAMES = sorted(path.name for path in SAMPLES.iterdir())
LOADED = {"import-fails", "import-not-tried"}  # found by importing alone
MARK = re.compile(r"# fault( in the file)?: ([\w-]+)")


def expected(folder: Path) -> set[tuple[str, str, int | None]]:
    found: set[tuple[str, str, int | None]] = set()
    for path in [*folder.rglob("*.py"), folder / "pyproject.toml"]:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if mark := MARK.search(line):
                found.add((mark[2], str(path), None if mark[1] else number))
    return found


def check(folder: Path) -> lint.Report:
    return lint.check(project.read(str(folder)))


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_breaks_what_it_says_and_nothing_else(name: str) -> None:
    wanted = expected(SAMPLES / name)
    assert wanted
    assert {(found.code, found.path, found.line) for found in check(SAMPLES / name).findings} == wanted


def test_every_rule_has_a_sample() -> None:
    assert {code for name in NAMES for code, _, _ in expected(SAMPLES / name)} == set(RULES) - LOADED


def test_a_rule_says_everything() -> None:
    for rule in RULES.values():
        assert rule.severity in SEVERITIES
        assert rule.why.endswith(".")
        assert rule.fix
        assert not rule.title.endswith(".")


def test_the_readers_page_has_every_rule() -> None:
    """After a change of the table: what `python -m vplug_rs.authoring.rules` prints is the end of the page."""
    assert (HERE.parent / "docs" / "authoring.md").read_text().endswith("\n## The rules\n" + render())


def plugin(folder: Path, source: str, group: str = "vllm.general_plugins", name: str = "register") -> list[str]:
    (folder / "pyproject.toml").write_text(
        f'[project]\nname = "acme"\n[project.entry-points."{group}"]\nacme = "acme:{name}"\n'
    )
    (folder / "acme.py").write_text("import os\nOFF = os.environ.get('ACME_OFF')\n" + source)
    return [found.code for found in check(folder).findings]


SOUND = {
    "a framework for the type checker": (
        "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    import torch\ndef register(): ...\n"
    ),
    "an import that may not run": "if OFF:\n    import torch\ndef register(): ...\n",
    "a lazy import": "def register():\n    import torch\n",
    "a name that is not torch": (
        "class torch:\n    class cuda:\n        init = print\ntorch.cuda.init()\ndef register(): ...\n"
    ),
    "a handler that tells": (
        "def register():\n    try:\n        pass\n    except Exception as error:\n        print(error)\n"
    ),
    "one expected failure": (
        "def register():\n    try:\n        import acme_c\n    except ImportError:\n        pass\n"
    ),
    "defaults": "def register(a=1, *b, c=2, **d): ...\n",
    "a decorated function": "def once(f): return lambda: f(1)\n@once\ndef register(a): ...\n",
    "a mark after the work": (
        "done = False\ndef register():\n    global done\n    if done:\n        return\n"
        "    import json\n    done = True\n"
    ),
    "a mark that is taken back": (
        "done = False\ndef register():\n    global done\n    if done:\n        return\n    done = True\n"
        "    try:\n        import json\n    except ImportError:\n        done = False\n        raise\n"
    ),
    "a local variable": "done = 0\ndef register():\n    if done:\n        return\n    it = True\n    open(it)\n",
    "a mark behind the switch": (
        "done = False\ndef register():\n    global done\n    if done:\n        return\n"
        "    if OFF:\n        done = True\n        return\n    import json\n    done = True\n"
    ),
    "an attribute that a module gives by itself": "def __getattr__(name): return print\n",
    "an attribute by a star": "from os.path import *\n",
    "an attribute by globals": "globals()['register'] = print\n",
    "an attribute that is assigned": "register = OFF or print\n",
    "a model by a variable": (
        "def register():\n    from vllm import ModelRegistry\n    for a, b in {}.items():\n"
        "        ModelRegistry.register_model(a, b)\n"
    ),
    "somebody else's registry": (
        "def register():\n    from other import registry\n    registry.register_model('a', 'not a reference')\n"
    ),
    "a patch with a check": (
        "def register():\n    import inspect\n    import vllm\n    if inspect.signature(vllm.LLM):\n"
        "        vllm.LLM.x = 1\n"
    ),
    "an exit of its command": "import sys\ndef main():\n    sys.exit(1)\ndef register(): ...\n",
    "a helper that answers": (
        "def has():\n    try:\n        import acme_c\n        return True\n"
        "    except Exception:\n        return False\ndef register():\n    has()\n"
    ),
    "a setting of vLLM's": "def register():\n    from vllm import envs\n    envs.VLLM_TRACE_FUNCTION = False\n",
    "a registration that may fail": (
        "def register():\n    from vllm import CustomOp\n    try:\n        CustomOp.register_oot(name='a')\n"
        "    except AssertionError:\n        print('twice')\n"
    ),
    "somebody else's routes": "def attach_router(app):\n    app.post('/v1/completions')\ndef register(): ...\n",
    "a model's class that is a text": (
        "def register():\n    from acme import Model\n    from vllm import ModelRegistry\n"
        "    ModelRegistry.register_model('A', Model)\nModel = 'acme:OFF'\n"
    ),
    "main": "def register(): ...\nif __name__ == '__main__':\n    print(OFF)\n    raise SystemExit\n",
    "a lambda and a default factory": "import subprocess\nF = lambda: subprocess.run('x')\ndef register(): ...\n",
    "CUDA only asked about": "def register():\n    import torch\n    torch.cuda.is_initialized()\n",
}


@pytest.mark.parametrize("what", SOUND)
def test_what_breaks_no_rule_is_not_found(what: str, tmp_path: Path) -> None:
    assert plugin(tmp_path, SOUND[what]) == []


def test_a_name_of_a_package_comes_before_its_module(tmp_path: Path) -> None:
    text = '[project]\nname = "acme"\n[project.entry-points."vllm.general_plugins"]\na = "acme.plugin:register"\n'
    (tmp_path / "pyproject.toml").write_text(text)
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "heavy.py").write_text("import torch\n")
    (tmp_path / "acme" / "plugin.py").write_text("import os\nfrom acme import heavy\ndef register():\n    os.environ\n")
    for first, codes in (("heavy = 1\n", []), ("def __getattr__(name): ...\n", []), ("", ["heavy-import"])):
        (tmp_path / "acme" / "__init__.py").write_text(first)
        assert [found.code for found in check(tmp_path).findings] == codes


def test_a_class_by_its_name_is_an_answer(tmp_path: Path) -> None:
    source = (
        "class Platform: ...\nNAME = 'acme.Platform'\ndef a():\n    if OFF:\n        return None\n    return NAME\n"
    )
    assert plugin(tmp_path, source, "vllm.platform_plugins", "a") == []


def test_our_own_plugins_break_no_rule() -> None:
    for folder in (HERE.parent, HERE.parent / "plugins" / "vplug_logits"):
        report = check(folder)
        assert (report.points > 0, report.files > 50, report.findings) == (True, True, [])


def test_a_module_of_a_requirement_is_not_missed(tmp_path: Path) -> None:
    text = '[project]\nname = "acme"\ndependencies = ["other"]\n'
    text += '[project.entry-points."vllm.general_plugins"]\na = "o.p:q"\n'
    (tmp_path / "pyproject.toml").write_text(text)
    assert check(tmp_path).findings == []
    (tmp_path / "pyproject.toml").write_text(text.replace('["other"]', "[]"))
    assert [found.code for found in check(tmp_path).findings] == ["target-module-missing"]


@pytest.mark.parametrize("row", ["a.b = 'acme:run'", "a = 3", "a = ''", "a = 'acme:'", "a = ['acme:run']"])
def test_a_value_that_is_no_reference(row: str, tmp_path: Path) -> None:
    text = f'[project]\nname = "acme"\n[project.entry-points."vllm.general_plugins"]\n{row}\n'
    (tmp_path / "pyproject.toml").write_text(text)
    assert [(found.code, found.line) for found in check(tmp_path).findings] == [("value-malformed", 4)]


def test_packages_are_found_where_the_build_says(tmp_path: Path) -> None:
    table = '[tool.setuptools.packages.find]\nwhere = ["code"]\n'
    text = '[project]\nname = "acme"\n[project.entry-points."vllm.general_plugins"]\na = "acme:no"\n'
    (tmp_path / "code" / "acme").mkdir(parents=True)
    (tmp_path / "code" / "acme" / "__init__.py").write_text("")
    for more in (table, ""):
        (tmp_path / "pyproject.toml").write_text(text + more)
        assert [found.code for found in check(tmp_path).findings] == ["target-attribute-missing"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (None, NotFoundError),
        (b"[project", UsageError),
        (b"\xff", UsageError),
        (b"a = " + b"[" * 100_000, UsageError),
        (b"#" * 2_000_000, UsageError),
        (b"project = 3", NotFoundError),
        (b'[project]\nname = 3\nentry-points = ["x"]\ndependencies = 4\n', NotFoundError),
    ],
    ids=["absent", "torn", "not utf-8", "deep", "huge", "no table", "wrong types"],
)
def test_a_pyproject_that_cannot_be_used(text: bytes | None, error: type[Exception], tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "pyproject.toml").write_bytes(text)
    with pytest.raises(error):
        check(tmp_path)


def test_hostile_sources_are_told_and_not_followed(tmp_path: Path) -> None:
    plugin(tmp_path, "def register(): ...\n")
    (tmp_path / "acme.py").write_text("x = " + "(" * 5000 + ")" * 5000)
    (found,) = check(tmp_path).findings
    assert (found.code, found.path) == ("source-not-read", str(tmp_path / "acme.py"))
    (tmp_path / "acme.py").write_text("from acme import register\n")
    assert check(tmp_path).findings == []


@pytest.mark.parametrize("number", [50, 400, 900, 2500])
def test_a_source_may_be_nested_as_deeply_as_python_reads_it(number: int, tmp_path: Path) -> None:
    deep = "+".join(["1"] * number)
    chain = ".".join(["os"] * number)
    source = f"x = {deep}\ndef register():\n    if {deep}:\n        return {chain}\n    print({deep})\n"
    assert set(plugin(tmp_path, source)) <= {"source-not-read"}
    assert number > 400 or plugin(tmp_path, source) == []


def test_as_text_nothing_is_imported(lab: CommandLab) -> None:
    folder = lab.site("acme")
    codes = plugin(folder, f"open({str(lab.touched)!r}, 'w')\nprint(1)\ndef register(): ...\n")
    assert codes == ["print-at-import"]
    done = lab.run([], "check", str(folder))
    rule = RULES["print-at-import"]
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == (
        "warning[print-at-import]: `print()` writes to stdout at import\n"
        f"  --> {folder / 'acme.py'}:4\nwhy: {rule.why}\nhint: {rule.fix}\n\n"
        "1 entry point and 1 source of acme: 1 warning\n"
    )


def test_a_sound_plugin(lab: CommandLab) -> None:
    folder = lab.site("acme")
    plugin(folder, "def register(): ...\n")
    done = lab.run([], "check", ".", cwd=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 entry point and 1 source of acme: no findings\n", "")


def test_an_installed_distribution_by_its_name(lab: CommandLab) -> None:
    site = lab.site()
    info = lab.plugin(site, "acme", "[vllm.general_plugins]\nacme = acme_mod:run\nother = acme_nod:run\n")
    with open(info / "METADATA", "a") as file:
        file.write("Requires-Dist: vllm>0.30\nRequires-Dist: vllm; extra == 'all'\n\nRequires-Dist: vllm\n")
    document = lab.json(site, "check", "Acme", status=1)
    assert (document["plugin"], document["entry_points"], document["files"]) == ("acme 1.0", 2, 1)
    assert document["counts"] == {"error": 3, "warning": 1, "note": 0}
    assert [(found["code"], found["path"], found["line"]) for found in document["findings"]] == [
        ("target-attribute-missing", str(info / "entry_points.txt"), 2),
        ("target-module-missing", str(info / "entry_points.txt"), 3),
        ("exit-in-plugin", str(site / "acme_mod.py"), 3),
        ("vllm-required", str(info / "METADATA"), 4),
    ]


@pytest.mark.parametrize(
    ("source", "codes"),
    [
        ("def register(): ...\n", []),
        ("raise RuntimeError('odd')\ndef register(): ...\n", ["import-fails"]),
        ("if 1:\n    raise SystemExit(3)\ndef register(): ...\n", ["import-fails"]),
        ("if 1:\n    os._exit(3)\ndef register(): ...\n", ["import-fails"]),
        ("import acme_not_there\ndef register(): ...\n", ["import-fails"]),
        ("if 1:\n    import vllm.sampling_params\ndef register(): ...\n", ["import-not-tried"]),
        (
            "if 1:\n    print(1)\n    os.environ['A'] = '1'\ndef register(): ...\n",
            ["environment-at-import", "print-at-import"],
        ),
        ("print(1)\ndef register(): ...\n", ["print-at-import"]),
        ("if 1:\n    import jax\ndef register(): ...\n", ["heavy-import"]),
    ],
)
def test_loaded_in_a_process_of_its_own(lab: CommandLab, source: str, codes: list[str]) -> None:
    folder, site = lab.site("acme"), lab.site()
    (site / "jax.py").write_text("")
    plugin(folder, source)
    document = lab.json(
        site, "check", str(folder), "--load", status=int(bool(codes) and "import-not-tried" not in codes)
    )
    assert [found["code"] for found in document["findings"]] == codes
    lines = {found["line"] for found in document["findings"] if source != "print(1)\ndef register(): ...\n"}
    assert lines <= {4}


@pytest.mark.parametrize(("word", "status"), [("nothing", 3), ("./nothing", 3), ("acme", 3)])
def test_there_is_nothing_to_check(lab: CommandLab, word: str, status: int) -> None:
    site = lab.site()
    lab.plugin(site, "acme")
    done = lab.run(site, "check", word)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith("error: ")
    assert "hint: " in done.stderr


def test_rules_know_no_rule_that_is_not_used() -> None:
    folder = Path(vplug_rs.__file__).parent / "authoring"
    used = {
        node.value
        for path in folder.glob("*.py")
        if path.name != "rules.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert set(RULES) <= used
