"""Fake roots: the files by which a machine's accelerators are known, described in TOML, made below a folder.

    from vplug_rs.testing import roots

    root = roots.build("nvidia-h100x8", tmp_path)

A description may hold: `about`, a sentence; `nodes`, names below `/dev`; `needs_user = true` where a privileged user
would see something else; and the tables

    [files]                          path -> text, { hex = "…" }, { base64 = "…" } or { repeat = "…", times = N }
    [links]                          path -> target
    [special]                        path -> "fifo", "socket", "folder" or "unreadable"
    [pci."0000:18:00.0"]             id = "10de:2330", class = "030200"; driver; form = "files" for an old kernel's way
    [environment]                    variables that belong to it
    [expect]                         platform -> ids of the evidence, in order

Paths have no leading slash and stay below the root.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "roots")
_SUFFIX = ".toml"


def names() -> list[str]:
    """The roots that come with this package, in alphabetical order."""
    return sorted(name.removesuffix(_SUFFIX) for name in os.listdir(_FOLDER) if name.endswith(_SUFFIX))


def about(name: str) -> str:
    """What kind of machine a root stands for, one sentence.

    Args:
        name: One of `names()`, or the path of a description of your own, which ends in `.toml`.
    """
    return str(_read(name).get("about", ""))


def expected(name: str) -> dict[str, list[str]]:
    """The ids of the evidence that the passive stage finds, for each platform that has any, in order.

    Args:
        name: See `about`.
    """
    return {platform: list(ids) for platform, ids in _read(name).get("expect", {}).items()}


def environment(name: str) -> dict[str, str]:
    """The variables that belong to a root; mostly none.

    Args:
        name: See `about`.
    """
    return dict(_read(name).get("environment", {}))


def needs_user(name: str) -> bool:
    """Whether a privileged user, who may open everything, sees another machine than the one that is meant.

    Args:
        name: See `about`.
    """
    return bool(_read(name).get("needs_user", False))


def build(name: str, folder: str | os.PathLike[str]) -> str:
    """Make a root.

    Args:
        name: See `about`.
        folder: Where its folder is made; it exists.

    Returns:
        The path of the root, `folder` and the root's name.

    Raises:
        FileExistsError: It is there already.
        LookupError: There is no such root.
        ValueError: The description is wrong; says where.
    """
    described = _read(name)
    root = os.path.join(os.fspath(folder), os.path.basename(name).removesuffix(_SUFFIX))
    os.mkdir(root)
    for node in described.get("nodes", ()):
        _write(_place(root, f"dev/{node}"), b"")
    for path, content in described.get("files", {}).items():
        _write(_place(root, path), _content(path, content))
    for address, function in described.get("pci", {}).items():
        _function(root, address, function)
    for path, target in described.get("links", {}).items():
        os.symlink(target, _place(root, path))
    for path, kind in described.get("special", {}).items():
        _special(_place(root, path), path, kind)
    return root


def _read(name: str) -> dict[str, Any]:
    import tomllib

    path = name if name.endswith(_SUFFIX) else os.path.join(_FOLDER, name + _SUFFIX)
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise LookupError(f"no root is called {name!r}; there are {', '.join(names())}") from None


def _place(root: str, path: str) -> str:
    """A path below the root, whose folder is made."""
    parts = path.split("/")
    if not all(parts) or ".." in parts or "." in parts:
        raise ValueError(f"{path!r} is no path below a root")
    full = os.path.join(root, *parts)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    return full


def _write(path: str, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)


def _content(path: str, content: str | dict[str, Any]) -> bytes:
    if isinstance(content, str):
        return content.encode()
    match content:
        case {"hex": str(text)}:
            return bytes.fromhex(text)
        case {"base64": str(text)}:
            import base64

            return base64.b64decode(text, validate=True)
        case {"repeat": str(text), "times": int(times)}:
            return text.encode() * times
    raise ValueError(f"{path}: {content!r} is no content of a file")


def _function(root: str, address: str, function: dict[str, str]) -> None:
    """What the kernel says of a PCI function."""
    folder = f"sys/bus/pci/devices/{address}"
    driver = function.get("driver", "")
    try:
        vendor, device = function["id"].split(":")
        number = int(function["class"], 16)
    except (KeyError, ValueError) as error:
        raise ValueError(f'{address}: a function needs id = "10de:2330" and class = "030200": {error!r}') from None
    if function.get("form") == "files":
        for name, text in (("vendor", vendor), ("device", device), ("class", f"{number:06x}")):
            _write(_place(root, f"{folder}/{name}"), f"0x{text}\n".encode())
        if driver:
            os.symlink(f"../../../../bus/pci/drivers/{driver}", _place(root, f"{folder}/driver"))
        return
    lines = [f"DRIVER={driver}"] if driver else []
    lines += [f"PCI_CLASS={number:04X}", f"PCI_ID={function['id'].upper()}", f"PCI_SLOT_NAME={address}", ""]
    _write(_place(root, f"{folder}/uevent"), "\n".join(lines).encode())


def _special(full: str, path: str, kind: str) -> None:
    import stat

    if kind == "folder":
        os.makedirs(full, exist_ok=True)
    elif kind == "fifo":
        os.mkfifo(full)
    elif kind == "socket":
        os.mknod(full, stat.S_IFSOCK | 0o600)  # binding one would need a path of at most 107 bytes
    elif kind == "unreadable":
        _write(full, b"")
        os.chmod(full, 0)
    else:
        raise ValueError(f'{path}: {kind!r} is none of "fifo", "socket", "folder", "unreadable"')
