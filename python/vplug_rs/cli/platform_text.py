"""Evidence, devices and probes -> lines for people. Pure: it looks at nothing and asks nobody.

The marks: `yes` a device was seen, `weak` something that often comes with one, `no` something that speaks against
using it, `info` neither.
"""

from __future__ import annotations

from vplug_rs import report
from vplug_rs.platforms import model

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vplug_rs.platforms.model import Device, Evidence, Probe

MARKS = {model.STRONG: "yes", model.WEAK: "weak", model.AGAINST: "no", model.INFO: "info"}
SAYING = (model.STRONG, model.WEAK, model.AGAINST)
"""The weights that say something of a platform being here."""

NAMES = {
    "tpu": "Google TPU",
    "cuda": "NVIDIA GPU",
    "rocm": "AMD GPU",
    "xpu": "Intel GPU",
    "cpu": "processor",
    "neuron": "AWS Neuron",
    "hpu": "Intel Gaudi",
    "npu": "Huawei Ascend",
    "apple": "Apple GPU",
}
"""What hardware a platform's name means, in the order in which they are asked."""

PASSIVE = "files and variables only; no driver was asked"

WHO = {
    "pynvml": "NVML, by pynvml",
    "native": "NVML, by our own binding",
    "libcuda": "the CUDA driver, by libcuda",
    "amdsmi": "AMD's driver, by amdsmi",
    "plugin": "the plugin itself",
}
"""Who answered last, by the name of the backend."""

OBVIOUS = {"file", "folder", "character device"}
"""Results that say no more than that the thing is there."""

WIDEST = 76  # a long path must not push all other texts to the right
GIB = 1 << 30


def says_something(probe: Probe) -> bool:
    """Whether a probe saw anything that has to do with its platform.

    Args:
        probe: The probe.
    """
    if probe.status not in {model.ABSENT, model.SKIPPED} or probe.hint:
        return True
    return any(one.weight in SAYING for one in probe.evidence)


def what(evidence: Evidence) -> str:
    """What was looked at and what was found there.

    Args:
        evidence: The observation.
    """
    subject, result = evidence.subject, evidence.result
    if evidence.kind == "pci":
        return f"PCI {result} at {subject}"
    if evidence.kind == "env":
        return f"{subject}={shown(result)}"
    obvious = not result or result in OBVIOUS or result == subject.rpartition("/")[2]
    return subject if obvious else f"{subject}: {result}"


def shown(value: str) -> str:
    """A variable's value; in quotes where it would not be seen or not be read as one word.

    Args:
        value: The value.
    """
    return value if value and not any(map(str.isspace, value)) else f'"{report.one_line(value)}"'


def evidence_lines(probes: Sequence[Probe], weights: Iterable[str] | None = None) -> list[str]:
    """One line for each observation: its mark, what was found, what that means.

    Several of one kind that mean the same are one line, with their number. Of several probes each line names its own.

    Args:
        probes: Whose evidence.
        weights: Only of these weights; by default all.
    """
    wanted = None if weights is None else set(weights)
    rows: list[tuple[str, str, str]] = []
    for probe in probes:
        counted: dict[tuple[str, str, str], list[Evidence]] = {}
        for one in probe.evidence:
            if wanted is None or one.weight in wanted:
                counted.setdefault((one.id, one.weight, one.text), []).append(one)
        for (_, weight, text), same in counted.items():
            mark = MARKS.get(weight, weight).ljust(4)
            whose = f"{probe.platform.ljust(6)}  " if len(probes) > 1 else ""
            more = f" and {len(same) - 1} more" if len(same) > 1 else ""
            rows.append((f"{whose}{mark}", report.one_line(what(same[0])) + more, report.one_line(text)))
    width = max((len(found) for _, found, _ in rows if len(found) <= WIDEST), default=0)
    return [f"  {mark}  {found.ljust(width)}  {text}".rstrip() for mark, found, text in rows]


def device_lines(probe: Probe) -> list[str]:
    """One line for each device: its number, and what is known of it.

    Args:
        probe: Whose devices.
    """
    rows = [_cells(device) for device in probe.devices]
    used = [column for column in range(len(rows[0]) if rows else 0) if any(row[column] for row in rows)]
    widths = {column: max(len(row[column]) for row in rows) for column in used}
    return [
        "  " + "  ".join([probe.platform, *(row[column].ljust(widths[column]) for column in used)]).rstrip()
        for row in rows
    ]


def driver(probe: Probe) -> str:
    """`, driver 570.124.06` where the devices say one, else nothing.

    Args:
        probe: Whose devices.
    """
    said = list(dict.fromkeys(device.driver for device in probe.devices if device.driver))
    return f", driver {', '.join(said)}" if said else ""


def _cells(device: Device) -> tuple[str, ...]:
    memory = "" if device.memory_bytes is None else f"{device.memory_bytes / GIB:.1f} GiB"
    if memory and device.integrated:
        memory += " shared with the host"
    odd = ["lost"] if device.status == model.UNKNOWN and device.note != model.NOT_ASKED else []
    odd += ["hidden by the environment"] if device.visible is False else []
    odd += [device.note] if device.note else []
    cells = (str(device.index), device.name, device.pci, memory, device.capability, "; ".join(odd))
    return tuple(report.one_line(cell or "") for cell in cells)


def title(probe: Probe) -> str:
    """The platform's name with the hardware that it means, or with the plugin's distribution.

    Args:
        probe: The probe.
    """
    meaning = NAMES.get(probe.platform) if probe.source == "builtin" else f"plugin of {probe.source}"
    return f"{probe.platform} ({meaning})" if meaning else probe.platform


def probe_lines(probe: Probe) -> list[str]:
    """All that a probe has to say: status and reason, evidence, devices, the next step.

    Args:
        probe: The probe.
    """
    lines = [f"{title(probe)}  {probe.status}  {report.one_line(probe.reason)}".rstrip()]
    lines += evidence_lines([probe])
    lines += device_lines(probe)
    if probe.qualname:
        lines.append(f"  class  {probe.qualname}")
    lines.append(f"  asked  {how(probe)}")
    if probe.hint:
        lines.append(f"  fix    {report.one_line(probe.hint)}")
    return lines


def how(probe: Probe) -> str:
    """Who answered, where, and how long it took.

    Args:
        probe: The probe.
    """
    where = ", in a process of its own" if probe.isolated else ""
    who = PASSIVE if probe.backend == "passive" else WHO.get(probe.backend, probe.backend)
    return f"{who}{where}, {probe.ms:.1f} ms"
