"""The extension and its wheel: what it links, which interpreters its tag serves, what is in it."""

from __future__ import annotations

import os
import re
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from shared_libraries import has_static_unwinder, needed
from vplug_rs import _core
from vplug_rs.testing import roots

ROOT = Path(__file__).resolve().parent.parent
EXTENSION = Path(str(_core.__file__))


def test_no_python_library_is_linked() -> None:
    assert not [name for name in needed(EXTENSION) if "python" in name]


def test_the_unwinder_is_inside() -> None:
    if os.environ.get("VPLUG_BUILD_SHARED_UNWINDER") or not has_static_unwinder():
        pytest.skip("built with the shared unwinder: asked for, or the compiler has no libgcc_eh.a")
    assert not [name for name in needed(EXTENSION) if name.startswith("libgcc_s")]


def test_the_extension_is_one_for_all_interpreters() -> None:
    assert EXTENSION.name == ("_core.abi3.so" if sys.platform != "win32" else "_core.pyd")


def test_the_build_is_the_optimised_one() -> None:
    info = _core.build_info()
    assert info["profile"] == "release", "figures and time limits are about `make dev`, not about a debug build"
    assert info["version"] == metadata.version("vplug_rs")


def built_wheel() -> Path:
    """Give the wheel that `make wheel` has built from the present sources, or skip."""
    wheels = sorted((ROOT / "dist").glob("*.whl"))
    if len(wheels) != 1:
        pytest.skip("no wheel in dist: `make wheel` builds it, `make test-pythons` tests with it")
    return wheels[0]


def test_the_tag_serves_every_later_interpreter() -> None:
    name = built_wheel().name
    assert re.fullmatch(r"vplug_rs-[\w.]+-cp311-abi3-\w+\.whl", name), name


def test_the_wheel_holds_the_package_and_nothing_else(tmp_path: Path) -> None:
    wheel = built_wheel()
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if not name.endswith("/")}
        archive.extract("vplug_rs/_core.abi3.so", tmp_path)
    here = ROOT / "python" / "vplug_rs"
    sources = {
        f"vplug_rs/{path.relative_to(here).as_posix()}"
        for path in here.rglob("*")
        if path.is_file() and path.suffix not in (".pyc", ".so")
    }
    code = {name for name in inside if ".dist-info/" not in name}
    assert code == sources | {"vplug_rs/_core.abi3.so"}
    described = {f"vplug_rs/testing/data/roots/{name}.toml" for name in roots.names()}
    assert len(described) > 40
    assert described <= code, "data files are part of the package"
    about = {name.rpartition(".dist-info/")[2] for name in inside - code}
    assert {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"} <= about
    assert not [name for name in needed(tmp_path / "vplug_rs" / "_core.abi3.so") if "python" in name]
