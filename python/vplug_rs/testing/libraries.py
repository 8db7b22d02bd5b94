"""Stand-ins for vendors' libraries, made of C by the compiler of this machine: an NVML by script, and tripwires.

The NVML is scripted by variables, which stand at the head of `data/fake_nvml.c`: how many devices, which call fails,
hangs or crashes. A process finds it where LD_LIBRARY_PATH names its folder before the process starts. Tripwires note in
a file that they were loaded or called, so that a test can show that nobody did.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

NVML = "libnvidia-ml.so.1"

VARIANTS: dict[str, tuple[str, ...]] = {
    "full": (f"-Wl,-soname,{NVML}",),
    "no-soname": (),
    "no-flags": (f"-Wl,-soname,{NVML}", "-DINIT=2"),
    "oldest": (f"-Wl,-soname,{NVML}", "-DINIT=1"),
    "no-init": (f"-Wl,-soname,{NVML}", "-DINIT=0"),
}
"""What can be made: a current library; one that does not tell its name; one of an old driver, without
`nvmlInitWithFlags`; one without `nvmlInit_v2` too; one without any function to begin with."""

TRIPWIRES = {
    "libcuda": ("libcuda.so.1", "libcuda.so"),
    "libamdhip64": ("libamdhip64.so", "libamdhip64.so.6", "libamdhip64.so.7"),
    "libze_loader": ("libze_loader.so.1", "libze_loader.so"),
    "libtpu": ("libtpu.so",),
}

_SECONDS = 120
_built: dict[tuple[str, ...], str] = {}


def compiler() -> str | None:
    """The C compiler of this machine, or None."""
    import shutil

    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def fake_nvml(folder: str, variant: str = "full") -> str:
    """Make the scripted NVML in a folder, and give its path. A second call with the same words makes nothing.

    Args:
        folder: Where it goes; made if it is not there. Each folder has room for one variant.
        variant: One of `VARIANTS`.

    Raises:
        VplugError: There is no compiler, it failed, or there is no such variant.
    """
    from vplug_rs.errors import VplugError

    if variant not in VARIANTS:
        raise VplugError(f"`{variant}` is no variant of the fake NVML.", hint=f"known: {', '.join(VARIANTS)}")
    return _build("fake_nvml.c", os.path.join(folder, NVML), VARIANTS[variant])


def tripwires(folder: str, log: str) -> None:
    """Make all tripwires in a folder. Each adds a line to `log` as it is loaded or called: process, library, what.

    Args:
        folder: Where they go; made if it is not there.
        log: The file that they write; it does not exist until one does.

    Raises:
        VplugError: There is no compiler, or it failed.
    """
    for name, (first, *others) in TRIPWIRES.items():
        words = (f'-DNAME="{name}"', f'-DLOG="{_escaped(os.path.abspath(log))}"', f"-Wl,-soname,{first}")
        _build("tripwire.c", os.path.join(folder, first), words)
        for other in others:
            if not os.path.lexists(path := os.path.join(folder, other)):
                os.symlink(first, path)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _build(source: str, target: str, words: Sequence[str]) -> str:
    import subprocess

    from vplug_rs.errors import VplugError

    target = os.path.abspath(target)
    key = (source, target, *words)
    if key in _built and os.path.exists(target):
        return target
    if (program := compiler()) is None:
        raise VplugError(
            f"`{os.path.basename(target)}` cannot be made: this machine has no C compiler.", hint="install gcc or clang"
        )
    os.makedirs(os.path.dirname(target), exist_ok=True)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", source)
    # under a name of its own first: a process that looks meanwhile must not find half a library
    made = f"{target}.{os.getpid()}"
    command = [program, "-shared", "-fPIC", "-O1", *words, "-o", made, path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)  # noqa: S603  # a compiler and our own source
    if done.returncode != 0:
        raise VplugError(f"`{os.path.basename(target)}` cannot be made: `{program}` said: {done.stderr.strip()[-500:]}")
    os.replace(made, target)
    _built[key] = target
    return target
