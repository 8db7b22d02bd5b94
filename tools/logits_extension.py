"""Build the wheel of plugins/vplug_logits, and take its extension out of it, for programs that run on the sources.

What the sources are tested with is so what is shipped, and nothing is installed anywhere.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLUGIN = ROOT / "plugins" / "vplug_logits"
BUILT = ROOT / "build" / "logits"
EXTENSION = "vplug_logits/_kernels.abi3.so"


def wheel() -> Path:
    """Build it, optimised, with the maturin of this environment.

    Raises:
        subprocess.CalledProcessError: It cannot be built; cargo has said why.
    """
    shutil.rmtree(BUILT, ignore_errors=True)
    maturin = Path(sys.executable).parent / "maturin"
    manifest = PLUGIN / "Cargo.toml"
    command: list[str | Path] = [maturin, "build", "--release", "--locked", "--manifest-path", manifest]
    subprocess.run([*command, "--interpreter", sys.executable, "--out", BUILT], check=True, cwd=ROOT)
    (made,) = BUILT.glob("*.whl")
    return made


def place(built: Path) -> Path:
    """Put the extension of a wheel among the sources, in one step: a program may have the earlier one mapped."""
    target = PLUGIN / "python" / EXTENSION
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    with zipfile.ZipFile(built) as archive:
        fresh.write_bytes(archive.read(EXTENSION))
    fresh.replace(target)
    return target


if __name__ == "__main__":
    print(place(wheel()).relative_to(ROOT))
