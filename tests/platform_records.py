"""Probes made by hand, for tests of what is concluded from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vplug_rs.platforms.classes import CLASSES
from vplug_rs.platforms.model import ABSENT, AGAINST, INFO, MASKED, PRESENT, STRONG, UNKNOWN, WEAK, Evidence, Probe

if TYPE_CHECKING:
    from pathlib import Path

ORDER = ("tpu", "cuda", "rocm", "xpu", "cpu", "neuron", "hpu", "npu", "apple")


def row(id: str, weight: str, text: str = "", kind: str = "pci", result: str = "seen") -> Evidence:  # noqa: A002
    """One observation."""
    return Evidence(id, kind, f"where {id} is", result, weight, text or f"{id} was seen")


def present(platform: str, *evidence: Evidence, **more: Any) -> Probe:
    """A platform of vLLM's that can be used, with a device seen unless other evidence is given."""
    more.setdefault("qualname", CLASSES.get(platform))
    rows = evidence or (row(f"{platform}.pci", STRONG),)
    return Probe(platform, PRESENT, evidence=rows, reason=f"{platform} answered", **more)


def weak(platform: str, what: str = "module", **more: Any) -> Probe:
    """One of which only something is here that often comes with it."""
    return present(platform, row(f"{platform}.{what}", WEAK), **more)


def masked(platform: str) -> Probe:
    """One whose devices the environment hides."""
    return Probe(
        platform,
        MASKED,
        qualname=CLASSES[platform],
        evidence=[row(f"{platform}.pci", STRONG)],
        reason=f"CUDA_VISIBLE_DEVICES hides every device of {platform}",
    )


def unknown(platform: str, *evidence: Evidence, hint: str | None = None) -> Probe:
    """One whose driver did not answer, with a device seen unless other evidence is given."""
    rows = evidence or (row(f"{platform}.pci", STRONG, f"a device of {platform} is there"),)
    return Probe(platform, UNKNOWN, evidence=rows, reason="the driver did not answer within 10 s", hint=hint)


def absent(platform: str, *evidence: Evidence, reason: str = "nothing of it is here", hint: str | None = None) -> Probe:
    """One that is not here."""
    return Probe(platform, ABSENT, evidence=evidence, reason=reason, hint=hint)


def cpu_build() -> Probe:
    """The CPU, for vLLM is built for it."""
    return present("cpu", row("cpu.build", STRONG, "vLLM is a CPU build", kind="dist"))


def machine(*found: Probe) -> list[Probe]:
    """A machine with these platforms, the others being absent, in the order in which they are asked."""
    known = {probe.platform: probe for probe in found}
    return [known.get(platform) or absent(platform) for platform in ORDER]


def plugin(
    name: str, qualname: str | None, *, of: str = "", reason: str = "", status: str = "", hint: str = ""
) -> Probe:
    """A plugin that has been asked."""
    status = status or (PRESENT if qualname else ABSENT)
    weight = {PRESENT: WEAK, ABSENT: AGAINST}.get(status, INFO)
    return Probe(
        name,
        status,
        source=f"{of or 'acme-' + name} 1.0",
        qualname=qualname,
        reason=reason or "as the plugin says",
        evidence=[row(f"{name}.plugin", weight, kind="call")],
        backend="plugin",
        hint=hint or None,
    )


def torch(folder: Path, kind: str) -> list[str]:
    """A path with a torch built for one kind of device, which must not be imported."""
    values = {"cuda": ("12.8", None, None), "rocm": (None, "6.4", None), "xpu": (None, None, "2025.1")}
    cuda, hip, xpu = values.get(kind, (None, None, None))
    package = folder / f"torch-for-{kind}" / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('torch was imported')\n", "utf-8")
    text = f"__version__ = '2.9.0'\ncuda = {cuda!r}\nhip = {hip!r}\nxpu = {xpu!r}\n"
    (package / "version.py").write_text(text, "utf-8")
    return [str(package.parent)]
