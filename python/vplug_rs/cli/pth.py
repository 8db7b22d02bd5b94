"""`.pth` files: the lines that name a folder which is gone, and the lines that run code at every start of Python.

In: the site. Out: findings. Only site directories count: Python reads `.pth` files nowhere else.
"""

from __future__ import annotations

import os
import sys

from vplug_rs import _core
from vplug_rs.cli.findings import read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

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
        except OSError:  # Python itself cannot read it either
            continue
        for child in children:
            if child.endswith(".pth") and not (child.startswith(".") and _skips_hidden()):
                yield from _check_file(site, folder, child)


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


def _check_file(site: Site, folder: str, child: str) -> Iterator[_core.Diagnostic]:
    path = os.path.join(folder, child)
    for number, line in enumerate((read_text(path) or "").splitlines(), 1):
        text = line.strip()
        if not text or line.startswith("#"):
            continue
        if line.startswith(CODE_STARTS):
            owner = _owner(site, folder, child)
            shown = text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."
            yield _core.Diagnostic(
                "pth-executes-code",
                path,
                f"every start of Python runs `{shown}`; "
                + (f"the file belongs to `{owner.label}`" if owner else "no distribution lists the file as its own"),
                line=number,
                distribution=owner.name if owner else None,
            )
        elif not os.path.exists(os.path.join(folder, text)):
            yield _core.Diagnostic(
                "pth-folder-missing", path, f"the line adds `{text}` to the path, which is gone", line=number
            )


def _owner(site: Site, folder: str, child: str) -> Copy | None:
    """The distribution whose list of files names this one."""
    for copy in site.copies:
        if copy.path_entry != folder or copy.state != "live":
            continue
        for name in FILE_LISTS:
            text = read_text(os.path.join(copy.path, name)) or ""
            if any(line.partition(",")[0].strip('"').removeprefix("../") == child for line in text.splitlines()):
                return copy
    return None


def _skips_hidden() -> bool:
    """Whether this interpreter leaves `.pth` files alone whose name starts with a dot (CPython gh-113659)."""
    version = sys.version_info[:3]
    return version >= (3, 12, 2) or (3, 11, 8) <= version < (3, 12)
