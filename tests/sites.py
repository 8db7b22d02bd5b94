"""Installations made from a nested dict: {name: text, bytes, a dict for a folder, or one of the odd nodes below}."""

from __future__ import annotations

import base64
import hashlib
import os
import socket
import textwrap
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Link:
    """A symbolic link; the target need not exist."""

    target: str


@dataclass(frozen=True)
class Fifo:
    """A named pipe that nobody writes to: opening it the ordinary way blocks for ever."""


@dataclass(frozen=True)
class Socket:
    """A socket file: opening it fails with ENXIO."""


@dataclass(frozen=True)
class Sparse:
    """A large file that takes no room: `head`, then zero bytes up to `size`."""

    size: int
    head: bytes = b""


@dataclass(frozen=True)
class Unreadable:
    """A file or folder of mode 000, or of another mode."""

    node: Node
    mode: int = 0


Node = str | bytes | Link | Fifo | Socket | Sparse | Unreadable | Mapping[str, "Node"]
Tree = Mapping[str, Node]


def build(where: Path, tree: Tree) -> Path:
    """Make the tree in the folder `where`, which is made too, and give `where` back."""
    where.mkdir(parents=True, exist_ok=True)
    for name, node in tree.items():
        _make(where / name, node)
    return where


def _make(path: Path, node: Node) -> None:
    if isinstance(node, Unreadable):
        _make(path, node.node)
        path.chmod(node.mode)
        return
    if isinstance(node, Mapping):
        build(path, node)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(node, str):
        path.write_bytes(textwrap.dedent(node).lstrip("\n").encode("utf-8", "surrogateescape"))
    elif isinstance(node, bytes):
        path.write_bytes(node)
    elif isinstance(node, Link):
        path.symlink_to(node.target)
    elif isinstance(node, Fifo):
        os.mkfifo(path)
    elif isinstance(node, Socket):
        _bind(path)
    else:
        with path.open("wb") as stream:
            stream.write(node.head)
            stream.truncate(node.size)


def _bind(path: Path) -> None:
    # the address of a socket is limited to about 100 bytes: bind beside, in a short place
    here = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def metadata(name: str, version: str, more: str = "") -> str:
    """Text of a METADATA file."""
    return f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{more}"


def dist(name: str, version: str, points: str | bytes | None = None, **files: Node) -> dict[str, Node]:
    """Give the tree of one healthy distribution, `{"NAME-VERSION.dist-info": {...}}`.

    Args:
        name: its project name.
        version: its version.
        points: text of entry_points.txt; the file is left out when None.
        files: further files of the folder, `_` standing for `.` (`top_level_txt=`); they win over the usual ones.
    """
    info: dict[str, Node] = {"METADATA": metadata(name, version)}
    if points is not None:
        info["entry_points.txt"] = points
    info.update({key.replace("_txt", ".txt"): node for key, node in files.items()})
    return {f"{name.replace('-', '_')}-{version}.dist-info": info}


def wheel(folder: Path, name: str, version: str, points: str = "") -> Path:
    """Write a pure wheel with one empty module by hand, for pip and uv to install without a network."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    members = {
        f"{name}.py": "",
        f"{info}/METADATA": metadata(name, version),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: by-hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if points:
        members[f"{info}/entry_points.txt"] = points
    rows = []
    for member, text in members.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        rows.append(f"{member},sha256={digest},{len(text.encode())}")
    members[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""])
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in members.items():
            archive.writestr(member, text)
    return path
