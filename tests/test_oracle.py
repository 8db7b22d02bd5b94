"""Differential tests: the same questions to the genuine importlib.metadata and to us, on nasty installations."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from interpreters import clean_environment, each_minor, need, running, shared_import_root
from oracle.allowed import Site
from servers import GENUINE, INSTALLED, Server
from sites import Link, Node, build

if TYPE_CHECKING:
    from collections.abc import Iterator

COMPARE = Path(__file__).resolve().parent / "oracle" / "oracle_compare.py"
LONG = bool(os.environ.get("VPLUG_LONG"))
SEEDS, DISTS = ("0-39", "60") if LONG else ("0-3", "12")
needs_links = pytest.mark.skipif(sys.platform == "win32", reason="the sites hold symbolic links")


def compare(executable: str, where: Path, *arguments: str) -> list[dict[str, Any]]:
    """Run oracle_compare.py; give its differences, having checked that it ran to its end."""
    kept = where / "differences.json"
    done = subprocess.run(
        [
            executable,
            "-B",
            str(COMPARE),
            "--path",
            str(shared_import_root()),
            "--max",
            "40",
            "--json",
            str(kept),
            *arguments,
        ],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=3600 if LONG else 300,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    (found, _, _, count, _) = done.stdout.strip().splitlines()[-1].replace(",", " ,").split()[:5]
    assert int(found) > 500, done.stdout
    differences: list[dict[str, Any]] = json.loads(kept.read_text(encoding="ascii"))
    assert len(differences) == int(count)
    print(done.stdout)
    return differences


@each_minor()
@needs_links
@pytest.mark.slow
@pytest.mark.timeout(3700)
def test_install_changes_no_answer(minor: int, tmp_path: Path) -> None:
    arguments = ("--seeds", SEEDS, "--dists", DISTS, "--install", "vplug_rs:install", "--messages", "exact")
    assert compare(need(minor).executable, tmp_path, *arguments) == []


@each_minor()
@needs_links
@pytest.mark.slow
@pytest.mark.timeout(3700)
def test_our_flavour_differs_only_as_documented(minor: int, tmp_path: Path) -> None:
    first, last = map(int, SEEDS.split("-"))
    for seed in range(first, last + 1):
        made = tmp_path / f"seed{seed}"
        importlib.import_module("oracle.oracle_site").build(str(made), seed, int(DISTS))
        arguments = ("--site", str(made), "--candidate", "vplug_rs.metadata", "--order", "any")
        differences = compare(need(minor).executable, tmp_path, *arguments)
        site = Site(made, minor)
        unexplained = [difference for difference in differences if site.entry_for(difference) is None]
        assert not unexplained, f"seed {seed}: {len(unexplained)}\n{json.dumps(unexplained[:6], indent=1)[:6000]}"
        assert len(differences) > 30, "a nasty site in which the standard does well?"


# ---- small random sites, asked of two resident processes

EXAMPLES = settings().max_examples  # of the chosen profile

NAMES = st.text(alphabet="aA-_.~é", max_size=6)
SUFFIXES = st.sampled_from(
    [".dist-info", "-1.0.dist-info", "-2.dist-info", ".egg-info", "-1.0-py3.11.egg-info", ".Dist-Info", ".egg", ""]
)
LINES = st.sampled_from(
    [
        "[g]",
        "[h]",
        " [ g ]",
        "[g",
        "a = m:f",
        "a=m.n:f.g [x,y]",
        "b = not-ok!!",
        "=",
        "a =",
        "# a = b",
        "",
        "  c = d  ",
        "word",
        "; a = b",
        "é = m:f",
    ]
)
POINTS = st.lists(LINES, max_size=6).map("\n".join)
HEADERS = st.lists(
    st.sampled_from(
        [
            "Name: a",
            "Name: A.a",
            "Name: é",
            "Version: 1.0",
            "Version: 2",
            "Requires-Dist: b; extra == 'x'",
            "word",
            "",
            " more",
            "X:",
        ]
    ),
    max_size=5,
).map("\n".join)
RECORDS = st.lists(
    st.sampled_from(["a.py,,", "p/q.py,sha256=x,3", "../b,,", "", '"c,d.so",,', "no", "a.b.py,,x"]), max_size=5
).map("\n".join)
LATIN = st.just(b"\xe9 = x\n")
FOLDER = st.fixed_dictionaries(
    {},
    optional={
        "METADATA": st.one_of(HEADERS, LATIN),
        "PKG-INFO": HEADERS,
        "entry_points.txt": st.one_of(POINTS, POINTS, POINTS, LATIN),
        "RECORD": st.one_of(RECORDS, LATIN),
        "SOURCES.txt": st.just("a.py\np/q.py\n"),
        "top_level.txt": st.sampled_from(["a\n", "p a\n", ""]),
        "requires.txt": st.sampled_from(["six\n[x]\ny\n", ""]),
    },
)
NODE = st.one_of(
    FOLDER,
    FOLDER,
    FOLDER,
    HEADERS,
    st.sampled_from([Link("nowhere"), Link("."), Link("a-1.0.dist-info"), Link("../s0/a-1.0.dist-info")]),
)
SITE = st.dictionaries(st.tuples(NAMES, SUFFIXES).map("".join), NODE, max_size=6)
EXTRA = st.sampled_from(["s0", "s0/", "./s0", "nowhere", "text", "link", "a-1.0.egg", "bundle.zip", "s0/../s1", ""])
LIMIT = 250


def lay_out(where: Path, sites: list[dict[str, Node]], archived: dict[str, Any]) -> None:
    """Make the folders s0, s1 …, an egg, an archive, a link and a text."""
    for i, site in enumerate(sites):
        for name, node in site.items():
            if name.strip("."):
                egg = name.endswith(".egg") and isinstance(node, dict)
                build(where / f"s{i}", {name: {"EGG-INFO": node} if egg else node})
        build(where / f"s{i}", {"a.py": "", "p": {"q.py": ""}})
    build(where, {"text": "no archive", "link": Link("s0"), "a-1.0.egg": {"EGG-INFO": archived}})
    with zipfile.ZipFile(where / "bundle.zip", "w") as archive:
        for name, node in archived.items():
            archive.writestr(f"zipped-1.0.dist-info/{name}", node)


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Server, Server]]:
    """Give two resident processes: the genuine module, and the genuine module after install()."""
    with (
        Server(running().executable, shared_import_root(), GENUINE) as genuine,
        Server(running().executable, shared_import_root(), INSTALLED) as installed,
    ):
        yield genuine, installed


@needs_links
@settings(max_examples=6 * EXAMPLES)
@given(
    sites=st.lists(SITE, min_size=1, max_size=3),
    extra=st.lists(EXTRA, max_size=2),
    archived=FOLDER,
    names=st.lists(NAMES, max_size=3),
    rounds=st.integers(1, 2),
)
def test_small_random_sites(
    pair: tuple[Server, Server],
    sites: list[dict[str, Node]],
    extra: list[str],
    archived: dict[str, Any],
    names: list[str],
    rounds: int,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        lay_out(where, sites, archived)
        path = [f"{folder}/{entry}" if entry else "" for entry in [*(f"s{i}" for i in range(len(sites))), *extra]]
        for _ in range(rounds):  # the second round comes from whatever was kept
            genuine, installed = (server.ask(path, ["a", *names], cwd=f"{folder}/s0")["answers"] for server in pair)
            for (question, first), (_, second) in zip(genuine, installed, strict=True):
                assert second == first, question


STEPS = st.sampled_from(["rewrite", "add", "remove", "rename", "touch", "swap"])


@needs_links
@settings(max_examples=EXAMPLES, phases=[Phase.generate])
@given(content=SITE, steps=st.lists(st.tuples(STEPS, FOLDER), min_size=1, max_size=5))
def test_random_changes_between_questions(
    pair: tuple[Server, Server], content: dict[str, Node], steps: list[tuple[str, dict[str, Any]]]
) -> None:
    """After each change an installed process answers like a genuine one that knows nothing of before."""
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        lay_out(where, [content], {})
        stable = where / "s0" / "stable-1.0.dist-info"
        build(stable, {"entry_points.txt": "[g]\na = m:f\n"})
        # The genuine module keeps listings by time stamp, so it is asked twice: under the same name, and under a name
        # that it has never heard of.  To be as fresh as either is enough where install() steps aside.
        site, resident = f"{folder}/s0", pair[0]
        for i, (step, more) in enumerate(steps):
            for server in pair:
                server.ask([site], ["a"])
            change(stable, step, more, i)
            (where / f"alias{i}").symlink_to("s0")
            fresh = json.loads(json.dumps(resident.ask([f"{folder}/alias{i}"], ["a"])).replace(f"/alias{i}", "/s0"))
            installed = pair[1].ask([site], ["a"])
            if installed["answers"] != fresh["answers"]:
                assert installed["answers"] == resident.ask([site], ["a"])["answers"]


def change(info: Path, step: str, content: dict[str, Any], number: int) -> None:
    """Do one thing to a metadata folder or beside it."""
    points = info / "entry_points.txt"
    if step == "rewrite":
        points.write_text(f"[g]\na = m:f{number}\n", encoding="utf-8")
    elif step == "add":
        build(info.parent / f"new{number}-1.0.dist-info", content)
    elif step == "remove":
        points.unlink(missing_ok=True)
    elif step == "rename":
        other = info / "tmp"
        other.write_text(f"[h]\nb = m:f{number}\n", encoding="utf-8")
        other.replace(points)
    elif step == "touch":
        os.utime(info.parent, ns=(10**18, 10**18 + number))
    else:
        info.rename(info.with_name(f"swapped{number}-1.0.dist-info"))
        build(info, content)
