"""Broken and hostile installations: our flavour reports and raises nothing, install() raises as the genuine does."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostile_sites import CASES, SANE, Hostile
from interpreters import clean_environment, running, shared_import_root
from servers import GENUINE, INSTALLED, OURS, Server, raised
from sites import build

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pipes, sockets and capabilities as Linux has them")

ABSENT = "PackageNotFoundError"
REFUSED = "A distribution name is required."  # what the standard says to an empty name
SEVERITIES = {"error", "warning", "note"}
EXAMPLES = settings().max_examples  # of the chosen profile


@pytest.fixture(scope="module", autouse=True)
def _modes_can_be_obeyed() -> None:
    if os.geteuid() == 0 and not hasattr(ctypes.CDLL(None), "capset"):
        pytest.skip("root reads everything here, and this C library has no capset()")


def lay_out(where: Path, case: Hostile) -> list[str]:
    """Build the case and give its path entries as expressions."""
    build(where, {"site": {**SANE, **case.site}, **case.beside})
    return [entry.format(here=where) for entry in case.path]


def reopen(where: Path) -> None:
    """Let pytest remove what nobody may read."""
    for folder, _, _ in os.walk(where):
        for child in Path(folder).iterdir():
            if not child.is_symlink() and child.is_dir():
                child.chmod(0o755)


def unwelcome(answers: dict[str, Any]) -> list[tuple[str, str, list[str]]]:
    """Give what was raised, anywhere in the answers, and should not have been."""
    hits = [(question, *hit) for question, answer in answers.items() for hit in raised([answer])]
    return [hit for hit in hits if hit[2][1] != ABSENT and hit[2][2] != REFUSED]


def asked(what: tuple[str, ...], path: list[str], names: tuple[str, ...], cwd: Path) -> dict[str, Any]:
    """Ask a process of its own."""
    with Server(running().executable, shared_import_root(), (*what, "--obey-modes"), timeout=50) as server:
        return server.ask_expressions(path, ("sane", "Odd", "absent", *names), cwd=str(cwd))


ONCE = pytest.mark.every_python  # in one environment only
LONG = bool(os.environ.get("VPLUG_LONG"))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=ONCE) if case.heavy else name for name, case in CASES.items()]
)
def test_our_flavour_contains_it(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    path = lay_out(tmp_path, case)
    try:
        reply = asked(OURS, path, case.names, tmp_path)
    finally:
        reopen(tmp_path)
    answers = dict(reply["answers"])
    wrong = unwelcome(answers)
    assert not wrong
    (points,) = [p for p in answers["entry_points(group='g')"][1] if p[0] == "ok"]
    assert points[1:3] == ["sane:f", "g"]
    assert points[4] == ["ok", ["sane", "1.0"]]
    assert answers["version('sane')"] == ["ok", "1.0"]
    assert ["sane", ["sane"]] in answers["packages_distributions()"][1]
    codes = [d[0] for d in reply["diagnostics"]]
    assert not case.codes or set(case.codes) & set(codes), codes
    for code, severity, where, _, _, message, advice in reply["diagnostics"]:
        assert severity in SEVERITIES
        assert where, code
        assert message, code
        assert advice, code


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.blocks and (LONG or not case.heavy)])
def test_install_answers_as_the_genuine_does(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    path = lay_out(tmp_path, case)
    try:
        genuine = asked(GENUINE, path, case.names, tmp_path)
        installed = asked(INSTALLED, path, case.names, tmp_path)
    finally:
        reopen(tmp_path)
    for (question, first), (_, second) in zip(genuine["answers"], installed["answers"], strict=True):
        assert second == first, question


@pytest.mark.parametrize("what", [OURS, INSTALLED], ids=["ours", "installed"])
def test_a_current_folder_that_is_gone(what: tuple[str, ...], tmp_path: Path) -> None:
    build(tmp_path / "site", SANE)
    gone = tmp_path / "gone"
    gone.mkdir()
    path = [repr(""), repr("."), repr("rel"), repr(str(tmp_path / "site"))]
    replies = []
    for each in (what, GENUINE):
        gone.mkdir(exist_ok=True)
        with Server(running().executable, shared_import_root(), each) as server:
            replies.append(server.ask_expressions(path, ["sane", "absent"], cwd=str(gone), remove=str(gone)))
    if what == INSTALLED:
        assert replies[0] == replies[1]
        return
    answers = dict(replies[0]["answers"])
    assert not unwelcome(answers)
    assert answers["version('sane')"] == ["ok", "1.0"]


def test_an_empty_path_and_no_finders(tmp_path: Path) -> None:
    with Server(running().executable, shared_import_root(), OURS) as server:
        answers = dict(server.ask_expressions([], ["sane"])["answers"])
    assert answers["entry_points()"] == ["ok", []]
    assert answers["version('sane')"][1] == "PackageNotFoundError"


@pytest.mark.parametrize("module", ["vplug_rs.metadata", "importlib.metadata"])
def test_folders_that_come_and_go_during_the_scan(module: str, tmp_path: Path) -> None:
    """A thread makes, renames and removes metadata folders while others list: nothing raises, `sane` is there."""
    build(tmp_path / "site", SANE)
    code = f"""
        import sys, os, shutil, threading, time, vplug_rs
        import importlib
        if {module!r} == "importlib.metadata":
            vplug_rs.install()
        md = importlib.import_module({module!r})
        site = {str(tmp_path / "site")!r}
        sys.path.insert(0, site)
        md.version("sane"), md.entry_points(), md.packages_distributions(), list(md.files("sane"))
        stop, made = threading.Event(), 0
        def churn():
            global made
            while not stop.is_set():
                for i in range(30):
                    info = f"{{site}}/c{{i}}-1.0.dist-info"
                    os.makedirs(info)
                    with open(info + "/METADATA", "w") as out: out.write(f"Name: c{{i}}\\nVersion: 1.0\\n")
                    with open(info + "/entry_points.txt", "w") as out: out.write("[g]\\nc = m:f\\n")
                    made += 1
                os.rename(site + "/c0-1.0.dist-info", site + "/d-1.0.dist-info")
                for name in os.listdir(site):
                    if name[0] in "cd": shutil.rmtree(site + "/" + name)
        failures = []
        def ask():
            try:
                while not stop.is_set():
                    assert "ok" in md.entry_points(group="g").names
                    assert md.version("sane") == "1.0"
                    for d in md.distributions(): d.name, d.version, d.files
                    assert md.packages_distributions()["sane"] == ["sane"]
            except BaseException as exc:
                failures.append(repr(exc))
        threads = [threading.Thread(target=churn)] + [threading.Thread(target=ask) for _ in range(3)]
        for t in threads: t.start()
        time.sleep(2); stop.set()
        for t in threads: t.join()
        print(made >= 30, sorted(set(failures)))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=clean_environment(PYTHONPATH=str(shared_import_root())),
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.stdout.strip() == "True []", done.stdout + done.stderr


FILES = (
    "METADATA",
    "PKG-INFO",
    "RECORD",
    "SOURCES.txt",
    "entry_points.txt",
    "installed-files.txt",
    "requires.txt",
    "top_level.txt",
)
WORDS = (
    b"[g]\n",
    b"a = b:c\n",
    b"=",
    b"[",
    b"]",
    b"Name: x\n",
    b"Version: 1\n",
    b"a.py,,\n",
    b"sha256=",
    b"../",
    b"x" * 300,
)
BYTES = (b"\n", b"\r", b",", b'"', b"/", b"\x00", b"\xff", b"\x1c", b" ", b"\t", b"#", b":")
CHARACTERS = (b"\xef\xbb\xbf", b"\xc2\x85", b"\xe2\x80\xa8", b"\xed\xa0\x80")
SCRAPS = st.sampled_from([*WORDS, *BYTES, *CHARACTERS])
CONTENT = st.one_of(st.binary(max_size=60), st.lists(SCRAPS, max_size=15).map(b"".join))
STEM = st.text(alphabet=st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), max_size=12)


@pytest.fixture(scope="module")
def ours() -> Any:
    """Give one process of our flavour for all fuzzing."""
    with Server(running().executable, shared_import_root(), OURS) as server:
        yield server


@settings(max_examples=6 * EXAMPLES)
@given(
    stems=st.lists(
        st.tuples(STEM, st.sampled_from([".dist-info", ".egg-info", ".DIST-INFO", "-1.0.dist-info", "-1.egg-info"])),
        min_size=1,
        max_size=3,
    ),
    contents=st.dictionaries(st.sampled_from(FILES), CONTENT, max_size=5),
    plain=CONTENT,
)
def test_random_bytes_raise_nothing(
    ours: Server, stems: list[tuple[str, str]], contents: dict[str, bytes], plain: bytes
) -> None:
    with tempfile.TemporaryDirectory() as where:
        site = build(Path(where), SANE)
        for i, (stem, suffix) in enumerate(stems):
            target = site / (stem + suffix)
            if len(os.fsencode(target.name)) > 250 or target.exists():
                continue
            build(site, {target.name: plain if i else contents})
        answers = dict(ours.ask([where], ["sane", *(stem for stem, _ in stems)])["answers"])
    wrong = unwelcome(answers)
    assert not wrong
    assert "ok" in [p[0] for p in answers["entry_points(group='g')"][1]]
    assert answers["version('sane')"][0] == "ok"
