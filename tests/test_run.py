"""`vplug run`: a program and its Python children get the fast metadata and see nothing else of us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from interpreters import clean_environment, each_minor, need
from strict_support import Bench, bench, write

SEE = """
import sys, json
print(json.dumps([
    sys.path, "sitecustomize" in sys.modules, getattr(sys.modules.get("sitecustomize"), "__file__", None), sys.argv,
    sorted(name for name in sys.path_importer_cache if name.endswith("/_run")), sys.flags.isolated
]))
"""
INSTALLED = """
import sys, importlib.metadata as m
print("_unique" not in m.entry_points.__code__.co_names)
"""


HERE = sys.version_info.minor
pytestmark = pytest.mark.every_python


def run(asked: Bench, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`vplug run -- WORDS`, by the interpreter of `asked`."""
    return asked.python("-m", "vplug_rs", "run", "--", *words, **environment)


@each_minor()
def test_the_program_and_its_children_are_patched(minor: int, tmp_path: Path) -> None:
    asked = bench(minor, tmp_path)
    child = f"import subprocess, sys; exec({INSTALLED!r}); sys.stdout.flush()\n"
    child += f"sys.exit(subprocess.call([sys.executable, '-c', {INSTALLED!r}]))"
    done = run(asked, asked.executable, "-c", child)
    assert (done.stdout, done.stderr, done.returncode) == ("True\nTrue\n", "", 0)
    plain = asked.python("-c", child)
    assert plain.stdout == "False\nFalse\n"


@each_minor()
def test_the_program_sees_what_it_saw_before(minor: int, tmp_path: Path) -> None:
    asked = bench(minor, tmp_path)
    words = ("-c", SEE, "argument")
    assert run(asked, asked.executable, *words).stdout == asked.python(*words).stdout != ""


@each_minor()
@pytest.mark.parametrize("before", [None, "", "own", "own:", ":own", "own::other"])
def test_pythonpath_keeps_its_meaning(minor: int, before: str | None, tmp_path: Path) -> None:
    # A site-packages of its own instead of PYTHONPATH, since that is what varies here.
    asked = bench(minor, tmp_path)
    subprocess.run([asked.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    site = next((tmp_path / "venv").glob("lib/python*/site-packages"))
    (site / "vplug_rs").symlink_to(asked.root / "vplug_rs")
    python = str(tmp_path / "venv" / "bin" / "python")
    environment = clean_environment() | ({} if before is None else {"PYTHONPATH": before})
    outputs = [
        subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        for words in ([python, "-c", SEE], [python, "-m", "vplug_rs", "run", "--", python, "-c", SEE])
    ]
    assert outputs[0] == outputs[1] != ""


USER = {
    "found": "import sys\nsys.stderr.write('mine\\n')\nVALUE = 1\n",
    "raises": "raise RuntimeError('mine')\n",
    "imports what is not there": "import nonsuch\n",
    "replaces itself": "import sys\nsys.modules[__name__] = sys\n",
    "exits": "import sys\nsys.exit(3)\n",
}


@each_minor()
@pytest.mark.parametrize("kind", USER)
def test_the_users_own_sitecustomize_runs_as_without_us(minor: int, kind: str, tmp_path: Path) -> None:
    asked = bench(minor, tmp_path)
    write(tmp_path / "mine", {"sitecustomize.py": USER[kind]})
    path = os.pathsep.join([str(asked.root), str(tmp_path / "mine")])
    plain = asked.python("-c", SEE, PYTHONPATH=path)
    # The launcher itself must not be the one that meets it.
    ours = asked.python("-I", "-c", LAUNCH, str(asked.root), path, asked.executable, "-c", SEE)
    assert (ours.stdout, ours.returncode) == (plain.stdout, plain.returncode)
    if "Traceback" in plain.stderr:  # a fatal error prints its frames, and one of them is ours
        assert ours.stderr.splitlines()[-1] == plain.stderr.splitlines()[-1]
    else:
        assert ours.stderr == plain.stderr


LAUNCH = """
import os, sys
root, path, *words = sys.argv[1:]
sys.path.insert(0, root)
from vplug_rs.cli import main
os.environ["PYTHONPATH"] = path
sys.exit(main(["run", "--", *words]))
"""


@each_minor()
def test_run_inside_run_adds_nothing(minor: int, tmp_path: Path) -> None:
    asked = bench(minor, tmp_path)
    show = "import os; print(sum(e.endswith(os.sep + '_run') for e in os.environ['PYTHONPATH'].split(os.pathsep)))"
    again = (asked.executable, "-m", "vplug_rs", "run", asked.executable, "-c", show)
    assert run(asked, *again).stdout == "1\n"
    assert run(asked, asked.executable, "-c", SEE).stdout == asked.python("-c", SEE).stdout


@each_minor()
@pytest.mark.parametrize("switch", ["-I", "-E", "-S"])
def test_switches_that_are_not_reached(minor: int, switch: str, tmp_path: Path) -> None:
    asked = bench(minor, tmp_path)
    assert run(asked, asked.executable, switch, "-c", INSTALLED).stdout == "False\n"


def _strangers() -> list[str]:
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = sorted(str(path) for path in root.glob("versions/*/bin/python") if not path.parts[-3].startswith("3.1"))
    return [*found, *(str(path) for path in root.glob("versions/3.10*/bin/python"))]


@pytest.mark.parametrize("python", _strangers() or [None], ids=lambda path: Path(path).parts[-3] if path else "none")
def test_an_older_python_runs_as_before(python: str | None, tmp_path: Path) -> None:
    if python is None:
        pytest.skip("no Python older than 3.11 here")
    asked = bench(HERE, tmp_path)
    see = SEE.replace(", sys.flags.isolated", "")
    plain = subprocess.run(
        [python, "-c", see],
        env=clean_environment(PYTHONPATH=str(asked.root)),
        capture_output=True,
        text=True,
        check=False,
    )
    done = run(asked, python, "-c", see)
    assert (done.stdout, done.stderr, done.returncode) == (plain.stdout, plain.stderr, plain.returncode)
    assert done.returncode == 0


@each_minor()
def test_an_environment_without_us_runs_as_before(minor: int, tmp_path: Path) -> None:
    asked = bench(minor, tmp_path)
    subprocess.run([asked.executable, "-m", "venv", "--without-pip", str(tmp_path / "other")], check=True)
    other = str(tmp_path / "other" / "bin" / "python")
    launched = asked.python("-I", "-c", LAUNCH, str(asked.root), "", other, "-c", SEE + INSTALLED)
    plain = subprocess.run(
        [other, "-c", SEE + INSTALLED], env=clean_environment(), capture_output=True, text=True, check=True
    )
    assert (launched.stdout, launched.stderr) == (plain.stdout, plain.stderr)
    assert plain.stdout.endswith("False\n")


def test_exit_status_and_signals_are_the_programs_own(tmp_path: Path) -> None:
    asked = bench(HERE, tmp_path)
    assert run(asked, "sh", "-c", "exit 7").returncode == 7
    assert run(asked, "sh", "-c", "kill -TERM $$").returncode == -signal.SIGTERM
    # an ignored SIGPIPE would let `yes` complain instead of ending
    done = run(asked, "sh", "-c", "yes | head -n 1; exit 0")
    assert (done.stdout, done.stderr) == ("y\n", "")


def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    asked = bench(HERE, tmp_path)
    done = run(asked, "vplug-no-such-program")
    assert (done.returncode, done.stdout) == (127, "")
    assert "vplug-no-such-program" in done.stderr
    plain = asked.folder / "plain"
    plain.write_text("")
    done = run(asked, str(plain))
    assert done.returncode == 126
    assert "cannot be executed" in done.stderr
    done = asked.python("-m", "vplug_rs", "run")
    assert done.returncode == 2
    assert "needs a program" in done.stderr


def test_words_after_the_program_are_not_ours(tmp_path: Path) -> None:
    asked = bench(HERE, tmp_path)
    for words in (["run", "--", "echo", "--help", "--", "-x"], ["run", "echo", "--help", "--", "-x"]):
        assert asked.python("-m", "vplug_rs", *words).stdout == "--help -- -x\n"


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    asked = bench(HERE, tmp_path)
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    done = run(asked, asked.executable, "-c", INSTALLED, PYTHONDONTWRITEBYTECODE="1")
    assert done.stdout == "True\n"
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_the_sitecustomize_parses_in_python_2() -> None:
    # Where a Python 2 is here, `test_an_older_python_runs_as_before` runs it; this holds everywhere.
    need(HERE)
    import vplug_rs

    source = (Path(vplug_rs.__file__).parent / "_run" / "sitecustomize.py").read_text()
    later = ("f'", 'f"', "async ", "await ", ":=", " -> ", "nonlocal", "from __future__", "print(", "*,", "match ")
    assert [word for word in later if word in source] == []
    assert source.isascii()


def test_the_help_says_what_is_not_reached(tmp_path: Path) -> None:
    asked = bench(HERE, tmp_path)
    text = asked.python("-m", "vplug_rs", "run", "--help").stdout
    assert all(switch in text for switch in ("-I", "-E", "-S"))
    assert sys.executable not in text
