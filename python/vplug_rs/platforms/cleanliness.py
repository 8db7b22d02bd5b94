"""What a process carries that a probe must not leave in it: driver libraries, frameworks, threads, descriptors.

It only looks: nothing is imported, no library opened, and torch is asked only where it is imported already. What it
knows of mappings, threads, descriptors and children is from Linux's /proc; elsewhere those are None.
"""

from __future__ import annotations

import os
import sys

from vplug_rs.platforms.model import _Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LIBRARIES = (
    "libnvidia-ml", "libcuda", "libcudart", "libamd_smi", "libamdhip64", "libhsa", "libze_loader", "libtpu",
)  # fmt: skip
"""How the names of files begin that talk to a driver once they are loaded, and stay mapped for ever."""

MODULES = ("torch", "pynvml", "amdsmi", "libtpu", "jax")
"""What no probe may import into the process that asks: heavy, noisy, or at work on the driver as it is imported."""

_PROC = "/proc/self"


class Cleanliness(_Record):
    """How one process looked at one moment.

    Attributes:
        libraries: Files of driver libraries that are mapped; None where that cannot be seen.
        modules: Those of `MODULES` that are in `sys.modules`.
        cuda_initialised: Whether the torch that is imported has initialised CUDA.
        threads: How many threads there are; None where that cannot be seen.
        descriptors: Open descriptors, as `3 -> /dev/null`; None where they cannot be seen.
        children: Processes that it has started and not yet waited for; None where they cannot be seen.
        note: Why something is None, or None.
    """

    __slots__ = (  # noqa: RUF023
        "libraries", "modules", "cuda_initialised", "threads", "descriptors", "children", "note", "_environment",
    )  # fmt: skip

    def __init__(self, **fields: Any) -> None:
        self.libraries: list[str] | None = fields.pop("libraries", None)
        self.modules: list[str] = fields.pop("modules", [])
        self.cuda_initialised: bool = fields.pop("cuda_initialised", False)
        self.threads: int | None = fields.pop("threads", None)
        self.descriptors: list[str] | None = fields.pop("descriptors", None)
        self.children: list[int] | None = fields.pop("children", None)
        self.note: str | None = fields.pop("note", None)
        self._environment: dict[str, str] = fields.pop("environment", {})  # for `difference`; never shown
        if fields:
            raise TypeError(f"a process has no {', '.join(fields)}")

    @property
    def clean(self) -> bool | None:
        """Whether it carries nothing of a driver; None where its mappings cannot be seen and nothing else tells."""
        if self.libraries or self.modules or self.cuda_initialised:
            return False
        return None if self.libraries is None else True

    @property
    def text(self) -> str:
        """The same in one line, for people."""
        found = [f"`{path}` is mapped" for path in self.libraries or ()]
        found += [f"`{name}` is imported" for name in self.modules]
        if self.cuda_initialised:
            found.append("CUDA is initialised")
        if found:
            return f"not clean: {', '.join(found)}"
        rest = "no framework is imported, CUDA is not initialised"
        if self.libraries is None:
            return f"mapped libraries cannot be seen here; {rest}"
        return f"clean: no driver library is mapped, {rest}"

    def as_dict(self) -> dict[str, Any]:
        """Its fields and `clean`, as plain data for JSON; the environment is left out."""
        return {"clean": self.clean} | {name: getattr(self, name) for name in self.__slots__ if name[0] != "_"}

    def __repr__(self) -> str:
        return f"<Cleanliness: {self.text}>"


def look() -> Cleanliness:
    """How this process looks now.

    Returns:
        What could be seen. Nothing that cannot be is an error: it is None, and `note` says why.
    """
    reasons: list[str] = []
    return Cleanliness(
        libraries=_seen(_libraries, reasons),
        modules=[name for name in MODULES if sys.modules.get(name) is not None],
        cuda_initialised=_cuda_initialised(),
        threads=_seen(_threads, reasons),
        descriptors=_seen(_descriptors, reasons),
        children=_seen(_children, reasons),
        note="; ".join(dict.fromkeys(reasons)) or None,
        environment=dict(os.environ),
    )


def difference(before: Cleanliness, after: Cleanliness) -> list[str]:
    """What happened to a process between two looks, each as one sentence; empty where nothing did.

    Fewer threads, fewer children and an import that is gone leave no trace, and do not count. Variables are named,
    their values are not.

    Args:
        before: The first look.
        after: The second.
    """
    told = [f"`{path}` is mapped" for path in _more(before.libraries, after.libraries)]
    told += [f"`{name}` is imported" for name in _more(before.modules, after.modules)]
    if after.cuda_initialised and not before.cuda_initialised:
        told.append("CUDA is initialised")
    if before.threads is not None and after.threads is not None and after.threads > before.threads:
        told.append(f"there are {after.threads} threads, and there were {before.threads}")
    told += [f"descriptor {one} is open" for one in _more(before.descriptors, after.descriptors)]
    told += [f"descriptor {one} is closed" for one in _more(after.descriptors, before.descriptors)]
    told += [f"process {one} was started and not waited for" for one in _more(before.children, after.children)]
    old, new = before._environment, after._environment
    told += [f"variable {name} was set" for name in _more(old, new)]
    told += [f"variable {name} was deleted" for name in _more(new, old)]
    told += [f"variable {name} was changed" for name in old if name in new and old[name] != new[name]]
    return told


def _more(fewer: Any, more: Any) -> list[Any]:
    """What the second has and the first has not; nothing where one of them is not known."""
    return [] if fewer is None or more is None else [one for one in more if one not in fewer]


def _seen(read: Any, reasons: list[str]) -> Any:
    """What a reader of /proc says, or None with its reason."""
    if sys.platform != "linux":
        reasons.append(f"{sys.platform} has no /proc: libraries, threads, descriptors and children are not known")
        return None
    try:
        return read()
    except OSError as error:
        reasons.append(f"`{error.filename or _PROC}` cannot be read: {error.strerror}")
        return None


def _libraries() -> list[str]:
    with open(f"{_PROC}/maps", encoding="utf-8", errors="surrogateescape") as stream:
        lines = [line.rstrip("\n").split(None, 5) for line in stream]
    paths = {line[5] for line in lines if len(line) > 5}  # noqa: PLR2004  # the sixth column
    return sorted(path for path in paths if path.rpartition("/")[2].startswith(LIBRARIES))


def _threads() -> int:
    return len(os.listdir(f"{_PROC}/task"))


def _descriptors() -> list[str]:
    found = []
    for name in sorted(os.listdir(f"{_PROC}/fd"), key=int):
        try:
            found.append(f"{name} -> {os.readlink(f'{_PROC}/fd/{name}')}")
        except FileNotFoundError:
            continue  # that of the listing itself, closed by now
    return found


def _children() -> list[int]:
    first = str(os.getpid())
    found = _children_of(first)  # where the kernel does not tell, this says so
    for thread in os.listdir(f"{_PROC}/task"):
        if thread == first:
            continue
        try:
            found += _children_of(thread)
        except (FileNotFoundError, ProcessLookupError):
            continue  # the thread has ended, and its children are the process's
    return sorted(found)


def _children_of(thread: str) -> list[int]:
    with open(f"{_PROC}/task/{thread}/children", encoding="ascii") as stream:
        return [int(word) for word in stream.read().split()]


def _cuda_initialised() -> bool:
    cuda = sys.modules.get("torch.cuda")
    if cuda is None:
        return False
    try:
        return bool(cuda.is_initialized())  # a look at a flag; it initialises nothing
    except Exception:  # noqa: BLE001  # half imported, or no torch: it has not initialised anything
        return False
