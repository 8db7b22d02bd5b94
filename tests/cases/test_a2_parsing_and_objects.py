"""Cases A11-A20: reading the files and the objects that are handed out."""

from __future__ import annotations

import pickle
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .conftest import Lab


def names(points: Any) -> list[str]:
    return sorted(p.name for p in points)


BROKEN_LINES = {
    "no_equals": "[other]\nthis line has no equals sign\n",
    "semicolon_comment": "[other]\n; an old ini comment\n",
    "colon_pair": "[other]\nkey : value\n",
    "continued_value": "[other]\nkey =\n    mod:f\n    more\n",
}


@pytest.mark.case("A11", "pypa/pip#8461, pypa/setuptools#2203")
@pytest.mark.parametrize("broken", sorted(BROKEN_LINES))
@pytest.mark.standard_defect(
    "one malformed line in any installed package raises TypeError out of entry_points(); "
    "right: that line (or file) is skipped and reported, everybody else's plugins still load"
)
def test_a_malformed_line_elsewhere_does_not_hide_my_plugins(md: Any, lab: Lab, broken: str) -> None:
    site = lab.dir("site")
    lab.dist(site, "shabby-1.0.dist-info", BROKEN_LINES[broken])
    lab.dist(site, "tidy-1.0.dist-info", "[a11.x]\ntidy = tidy:f\n")
    lab.path(site)
    assert names(md.entry_points(group="a11.x")) == ["tidy"]


@pytest.mark.case("A12", "pypa/pip#11027, pypa/setuptools#1722, pypa/setuptools#719")
@pytest.mark.standard_defect(
    "a byte that is not UTF-8 in any entry_points.txt raises UnicodeDecodeError for every caller; "
    "right: only the damaged file is left out and reported"
)
def test_a_damaged_byte_elsewhere_does_not_hide_my_plugins(md: Any, lab: Lab) -> None:
    site = lab.dir("site")
    lab.dist(site, "scratched-1.0.dist-info", b"[other]\nserve = pages:main\n\xe9\x8e\x00junk")
    lab.dist(site, "intact-1.0.dist-info", "[a12.x]\nintact = intact:f\n")
    lab.path(site)
    assert names(md.entry_points(group="a12.x")) == ["intact"]


@pytest.mark.case("A13", "python/importlib_metadata#68")
def test_a_name_given_twice_in_a_section_keeps_both(md: Any, lab: Lab) -> None:
    site = lab.dir("site")
    lab.dist(site, "double-1.0.dist-info", "[a13.x]\nrun = double:one\nrun = double:two\n")
    lab.path(site)
    assert [p.value for p in md.entry_points(group="a13.x")] == ["double:one", "double:two"]


@pytest.mark.case(
    "A14", "python/importlib_metadata#523, pypa/setuptools#4961, pypa/pip#14220, aiidateam/aiida-core#2356"
)
@pytest.mark.standard_defect(
    "up to CPython 3.14 load() of a bad reference raises AttributeError about NoneType, and "
    "importlib_metadata 8.7-9 / CPython 3.15 raise while listing; right (as in importlib_metadata 10): "
    "listing never raises, load() raises ValueError with the reference in it",
    modules=("importlib.metadata",),
)
def test_a_bad_reference_is_listed_and_fails_only_when_loaded(md: Any, lab: Lab) -> None:
    site = lab.dir("site")
    lab.dist(site, "crooked-1.0.dist-info", "[a14.other]\nbad = not-a-module!!\n[a14.x]\nb = also bad\n")
    lab.dist(site, "straight-1.0.dist-info", "[a14.x]\na = json:dumps\n")
    lab.path(site)
    found = md.entry_points(group="a14.x")
    assert names(found) == ["a", "b"]
    assert found["a"].load()([1]) == "[1]"
    with pytest.raises(ValueError, match="also bad"):
        found["b"].load()


@pytest.mark.case("A15", "pypa/setuptools#323, packaging specification of entry points")
def test_odd_but_legal_names_survive(md: Any, lab: Lab) -> None:
    site = lab.dir("site")
    lab.dist(
        site,
        "Odd-1.0.dist-info",
        """
        [a15.Lexers]
        html+acme = odd.lexers:HtmlAcme
        py:func = odd:func
        two words = odd:two
        UPPER = odd:upper
        upper = odd:lower
        ünïcode = odd:uni
        a.b-c_d = odd:mixed
        """,
    )
    lab.path(site)
    assert names(md.entry_points(group="a15.Lexers")) == sorted(
        ["html+acme", "py:func", "two words", "UPPER", "upper", "ünïcode", "a.b-c_d"]
    )
    assert names(md.entry_points(group="a15.lexers")) == []
    (upper,) = md.entry_points(group="a15.Lexers", name="UPPER")
    assert upper.value == "odd:upper"


@pytest.mark.case("A16", "kedro-org/kedro#1476, jaseci-labs/jac#5082, napari/napari#4015, simonw/llm#732")
def test_listing_imports_no_plugin(md: Any, lab: Lab) -> None:
    site = lab.dir("site")
    lab.module(site, "bomb_a16", "raise SystemExit('a plugin was imported by listing')\n")
    lab.dist(
        site,
        "bomb-1.0.dist-info",
        "[a16.x]\nbomb = bomb_a16:boom\n",
        files={"top_level.txt": "bomb_a16\n", "RECORD": "bomb_a16.py,,\n"},
    )
    lab.path(site)
    (point,) = md.entry_points(group="a16.x")
    assert (point.name, point.module, point.attr, point.extras) == ("bomb", "bomb_a16", "boom", [])
    assert point.dist.version == "1.0"
    assert md.packages_distributions()["bomb_a16"] == ["bomb"]
    assert "bomb_a16" not in sys.modules


@pytest.mark.case("A17", "python-poetry/poetry#5418, glue-viz/glue#2108, datachain-ai/datachain#1904")
def test_each_entry_point_knows_its_package(md: Any, lab: Lab) -> None:
    site = lab.dir("site")
    meta = "Metadata-Version: 2.1\nName: Acme.Ledger-Plugins\nVersion: 4.2.0rc1\n"
    lab.dist(site, "acme_ledger_plugins-4.2.0rc1.dist-info", "[a17.x]\nbook = ledger:Book\n", meta=meta)
    lab.path(site)
    (point,) = md.entry_points(group="a17.x")
    assert point.dist.name == "Acme.Ledger-Plugins"
    assert point.dist.version == "4.2.0rc1"
    assert point.dist.metadata["Name"] == "Acme.Ledger-Plugins"


@pytest.mark.case("A18", "PyCQA/flake8#1297 (pickling), python/importlib_metadata#517, pypa/setuptools#3649")
def test_entry_points_are_values(md: Any, lab: Lab) -> None:
    a = md.EntryPoint(name="n", value="json:dumps", group="g")
    b = md.EntryPoint(name="n", value="json:dumps", group="g")
    c = md.EntryPoint(name="m", value="json:loads", group="g")
    assert a == b and hash(a) == hash(b) and len({a, b, c}) == 2
    assert sorted([a, c]) == [c, a]
    with pytest.raises(AttributeError):
        a.name = "other"
    again = pickle.loads(pickle.dumps(a))
    assert again == a and again.load()([]) == "[]"
    site = lab.dir("site")
    lab.dist(site, "jar-1.0.dist-info", "[a18.x]\nd = json:dumps\nl = json:loads\n")
    lab.path(site)
    found = md.entry_points(group="a18.x")
    assert issubclass(type(found), (tuple, list))  # a tuple from Python 3.12 on
    assert found.names == {"d", "l"} and found.groups == {"a18.x"}
    assert found["l"].value == "json:loads"
    assert names(found.select(name="d")) == ["d"]
    assert names(md.entry_points(group="a18.x", name="l")) == ["l"]
    with pytest.raises(KeyError):
        found["absent"]
    (copy,) = pickle.loads(pickle.dumps(list(md.entry_points(group="a18.x", name="d"))))
    assert copy.load() is __import__("json").dumps


@pytest.mark.case("A19", "open-telemetry/opentelemetry-python-contrib#3167, #2967")
def test_requirements_are_none_or_a_list(md: Any, lab: Lab) -> None:
    site = lab.dir("site")
    lab.dist(site, "alone-1.0.dist-info")
    meta = (
        "Metadata-Version: 2.1\nName: social\nVersion: 1.0\n"
        "Requires-Dist: httpx>=0.2\nRequires-Dist: rich; extra == 'cli'\nProvides-Extra: cli\n"
    )
    lab.dist(site, "social-1.0.dist-info", meta=meta)
    lab.dist(site, "elder.egg-info", files={"requires.txt": "six\n\n[cli]\nclick>=8\n"})
    lab.path(site)
    assert md.requires("alone") is None
    assert md.requires("social") == ["httpx>=0.2", "rich; extra == 'cli'"]
    assert md.requires("elder") == ["six", 'click>=8; extra == "cli"']
    assert md.metadata("social").get_all("Provides-Extra") == ["cli"]


@pytest.mark.case("A20", "python/importlib_metadata#330, #442, #526")
@pytest.mark.standard_defect(
    "CPython 3.10 knows import names from top_level.txt only; RECORD is read from 3.11 on",
    modules=("importlib.metadata",) if sys.version_info < (3, 11) else (),
)
def test_import_names_lead_back_to_packages(md: Any, lab: Lab) -> None:
    site = lab.dir("site")
    lab.module(site, "solo_a20", "")
    lab.write(site / "shared_a20" / "one.py", "")
    lab.dist(
        site,
        "wheelish-1.0.dist-info",
        files={
            "RECORD": "solo_a20.py,,\nshared_a20/one.py,,\nwheelish-1.0.dist-info/METADATA,,\n"
            "wheelish-1.0.dist-info/RECORD,,\n"
        },
    )
    lab.dist(site, "eggish-1.0.dist-info", files={"top_level.txt": "shared_a20\n"})
    lab.path(site)
    found = md.packages_distributions()
    assert found["solo_a20"] == ["wheelish"]
    assert sorted(found["shared_a20"]) == ["eggish", "wheelish"]
    assert not [name for name in found if "dist-info" in name]
