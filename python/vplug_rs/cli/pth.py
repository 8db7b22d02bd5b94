"""`.pth` files: the lines that name a folder which is gone, and the lines that run code at every start of Python.

In: the site. Out: findings. Only site directories count: Python reads `.pth` files nowhere else.
"""

from __future__ import annotations

import os
import sys

from vplug_rs.cli.findings import make, read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from vplug_rs import _core
    from vplug_rs.cli.inventory import Copy, Site

FILE_LISTS = ("RECORD", "installed-files.txt")
CODE_STARTS = ("import ", "import\t")
SHOWN = 60  # enough of a line of code to recognise it


def check(site: Site) -> Iterator[_core.Diagnostic]:
    """Yield a finding for each `.pth` line that runs code or names a missing folder.

    Args:
        site: The environment.
    """
    for folder in site_directories(site.paths):
        try:
            children = sorted(os.listdir(folder))
        except (OSError, ValueError):  # Python itself cannot read it either
            continue
        files = [child for child in children if child.endswith(".pth") and not (child[0] == "." and _skips_hidden())]
        owners = _owners(site, folder, files)
        for child in files:
            yield from _check_file(folder, child, owners.get(child))


def site_directories(paths: list[str]) -> list[str]:
    """The folders on a path in which this interpreter obeys `.pth` files.

    Args:
        paths: The search path.
    """
    site = sys.modules.get("site")
    if site is None or sys.flags.no_site:
        return []
    known = list(site.getsitepackages())
    if site.ENABLE_USER_SITE:
        known.append(site.getusersitepackages())
    real = {os.path.normcase(os.path.realpath(folder)) for folder in known}
    found: dict[str, str] = {}
    for path in paths:
        if path and os.path.normcase(os.path.realpath(path)) in real:
            found.setdefault(os.path.realpath(path), path)
    return list(found.values())


def _check_file(folder: str, child: str, owner: Copy | None) -> Iterator[_core.Diagnostic]:
    path = os.path.join(folder, child)
    for number, line in enumerate((read_text(path) or "").splitlines(), 1):
        text = line.strip()
        if not text or line.startswith("#"):
            continue
        if line.startswith(CODE_STARTS):
            shown = text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."
            yield make(
                "pth-executes-code",
                path,
                f"every start of Python runs `{shown}`; "
                + (f"the file belongs to `{owner.label}`" if owner else "no distribution lists the file as its own"),
                line=number,
                copy=owner,
            )
        elif not os.path.exists(os.path.join(folder, text)):
            yield make("pth-folder-missing", path, f"the line adds `{text}` to the path, which is gone", line=number)


def _owners(site: Site, folder: str, files: list[str]) -> dict[str, Copy]:
    """The distribution whose list of files names each of these; each list is read once."""
    owners: dict[str, Copy] = {}
    wanted = set(files)
    for copy in site.copies if wanted else ():
        if copy.path_entry != folder or copy.state != "live":
            continue
        for name in FILE_LISTS:
            text = read_text(os.path.join(copy.path, name)) or ""
            for line in text.splitlines() if ".pth" in text else ():
                child = line.partition(",")[0].strip('"').removeprefix("../")
                if child in wanted:
                    owners.setdefault(child, copy)
    return owners


def _skips_hidden() -> bool:
    """Whether this interpreter leaves `.pth` files alone whose name starts with a dot (CPython gh-113659)."""
    version = sys.version_info[:3]
    return version >= (3, 12, 2) or (3, 11, 8) <= version < (3, 12)
