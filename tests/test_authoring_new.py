"""`vplug new plugin`: what it writes keeps every rule and passes its own test, and nothing is overwritten."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import vplug_rs
from cli_lab import CommandLab, lab
from vplug_rs import groups
from vplug_rs.authoring import lint, project, skeleton
from vplug_rs.errors import UsageError
from vplug_rs.testing import plugins

__all__ = ["lab"]

KINDS = sorted(skeleton.KINDS)
LONG = 120


@pytest.mark.parametrize("kind", KINDS)
def test_a_skeleton_breaks_no_rule_and_passes_its_own_test(lab: CommandLab, kind: str) -> None:
    done = lab.run([], "new", "plugin", "Acme-Plug.in", "--kind", kind)
    assert (done.returncode, done.stderr) == (0, "")
    folder = lab.root / "Acme-Plug.in"
    written = done.stdout.split("\n\n")[0].splitlines()
    assert {str(path.relative_to(lab.root)) for path in folder.rglob("*") if path.is_file()} == set(written)
    checked = lab.run([], "check", "Acme-Plug.in")
    assert re.fullmatch(r"1 entry point and \d sources of Acme-Plug.in: no findings\n", checked.stdout), checked.stdout
    tested = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"],
        cwd=folder,
        env=lab.environment(),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert re.search(r"^\d+ passed in ", tested.stdout, re.MULTILINE), tested.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_its_files_are_what_they_should_be(kind: str) -> None:
    files = skeleton.render("acme", kind)
    assert {"README.md", "pyproject.toml", "src/acme/__init__.py", "src/acme/selftest.py"} <= set(files)
    table = tomllib.loads(files["pyproject.toml"])
    assert table["project"]["dependencies"] == []
    ((group, points),) = table["project"]["entry-points"].items()
    assert group in groups.GROUPS
    assert list(points) == ["acme"]
    for path, text in files.items():
        assert "$" not in text.replace("\n$ ", "\n"), path
        assert text.endswith("\n"), path
        if path.endswith(".py"):
            compile(text, path, "exec")
            assert max(map(len, text.splitlines())) <= LONG, path


def test_every_kind_has_its_templates_and_every_group_but_one_its_kind() -> None:
    assert sorted(os.listdir(skeleton.TEMPLATES)) == sorted([*KINDS, "common"])
    assert {kind.group for kind in skeleton.KINDS.values()} == set(groups.GROUPS) - {groups.LOGITS_PROCESSOR}


def test_a_broken_skeleton_is_told_by_its_own_test(lab: CommandLab) -> None:
    lab.run([], "new", "plugin", "acme")
    plugin = lab.root / "acme" / "src" / "acme" / "plugin.py"
    plugin.write_text(plugin.read_text().replace("import os\n", "import os\nimport torch\n"))
    (lab.root / "torch.py").write_text("")
    assert [line.split(": ")[1] for line in plugins.broken_rules(lab.root / "acme")] == ["heavy-import"]
    done = plugins.call("acme.plugin:register", path=[plugin.parent.parent, lab.root], times=0)
    assert (done.error, done.frameworks) == (None, ["torch"])


def test_nothing_is_overwritten(lab: CommandLab) -> None:
    (lab.root / "acme" / "tests").mkdir(parents=True)
    (lab.root / "acme" / "mine.txt").write_text("mine")
    (lab.root / "acme" / "tests" / "test_plugin.py").symlink_to("nowhere")
    done = lab.run([], "new", "plugin", "acme")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: `./acme/tests/test_plugin.py` is there already; nothing was written\n")
    assert sorted(path.name for path in (lab.root / "acme").rglob("*")) == ["mine.txt", "test_plugin.py", "tests"]
    (lab.root / "acme" / "tests" / "test_plugin.py").unlink()
    assert lab.run([], "new", "plugin", "acme").returncode == 0
    assert (lab.root / "acme" / "mine.txt").read_text() == "mine"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="a privileged user may write everywhere")
def test_a_folder_that_cannot_be_written(lab: CommandLab) -> None:
    lab.root.chmod(0o500)
    try:
        done = lab.run([], "new", "plugin", "acme")
    finally:
        lab.root.chmod(0o700)
    assert done.returncode == 2


def test_a_file_where_the_folder_should_be(lab: CommandLab) -> None:
    (lab.root / "acme").write_text("")
    done = lab.run([], "new", "plugin", "acme")
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot be written" in done.stderr


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "a/b",
        "/a",
        "a\\b",
        "-a",
        "a-",
        "1a",
        "a b",
        "ä",
        "a\n",
        "vllm",
        "torch",
        "Json",
        "class",
        "tests",
        "a" * 101,
    ],
)
def test_a_name_that_cannot_be_used(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        skeleton.render(name, "general")
    assert caught.value.hint


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["plug", "acme"], "argument plugin: invalid choice: "),
        (["plugin"], "the following arguments are required: NAME"),
        (["plugin", "acme", "--kind", "odd"], "argument --kind: invalid choice: "),
    ],
)
def test_a_wrong_command_line(lab: CommandLab, words: list[str], message: str) -> None:
    done = lab.run([], "new", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {message}")


def test_the_selftest_says_what_is_the_matter(lab: CommandLab) -> None:
    lab.run([], "new", "plugin", "acme")
    source, site = lab.root / "acme" / "src", lab.site()

    def selftest(**more: str) -> tuple[int, str]:
        line = [sys.executable, "-S", "-P", "-m", "acme.selftest"]
        environment = lab.environment(source, site, **more)
        done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.stderr == ""
        return done.returncode, done.stdout

    missing = "no installed distribution has `acme` in vllm.general_plugins: run `pip install .`\n"
    assert selftest() == (1, missing)
    lab.plugin(site, "acme", "[vllm.general_plugins]\nacme = acme.plugin:register\n", module=False)
    assert selftest() == (0, "acme: all is well\n")
    assert selftest(ACME="off") == (1, "ACME switches it off\n")


class TestCall:
    """`vplug_rs.testing.plugins.call`, on plugins that are not as they should be."""

    @pytest.fixture
    def write(self, tmp_path: Path) -> Path:
        return tmp_path / "acme.py"

    def test_what_is_raised_is_told(self, write: Path) -> None:
        write.write_text("def a():\n    raise SystemExit('no')\n")
        assert plugins.call("acme:a", path=[write.parent]).error == "SystemExit: no"
        assert plugins.call("acme:b", path=[write.parent]).error == "AttributeError: module 'acme' has no attribute 'b'"
        done = plugins.call("acme_not:b", path=[write.parent])
        assert done.error == "ModuleNotFoundError: No module named 'acme_not'"

    def test_what_is_printed_logged_and_given(self, write: Path) -> None:
        write.write_text("import logging\ndef a():\n    print('x')\n    logging.warning('%s', 'y')\n    return {1, }\n")
        done = plugins.call("acme:a", path=[write.parent], times=2)
        assert (done.printed, done.logged, done.answers) == ("x\nx\n", ["y", "y"], ["{1}", "{1}"])

    def test_a_plugin_that_never_ends(self, write: Path) -> None:
        write.write_text("import time\ntime.sleep(60)\n")
        with pytest.raises(TimeoutError, match="acme:a"):
            plugins.call("acme:a", path=[write.parent], seconds=1)

    def test_a_plugin_that_ends_the_process(self, write: Path) -> None:
        write.write_text("import os\nos._exit(7)\n")
        with pytest.raises(ChildProcessError, match="status 7"):
            plugins.call("acme:a", path=[write.parent])


def test_skeletons_are_checked_by_the_same_rules(tmp_path: Path) -> None:
    for kind in KINDS:
        skeleton.write(f"acme-{kind}", kind, str(tmp_path))
        assert lint.check(project.read(str(tmp_path / f"acme-{kind}"))).findings == []


def test_the_templates_lie_inside_the_package() -> None:
    assert Path(skeleton.TEMPLATES).is_relative_to(Path(vplug_rs.__file__).parent)
