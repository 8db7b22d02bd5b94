"""Hardware whose platform comes from a plugin: it is named, so that a plugin's claim can be held against it."""

from __future__ import annotations

from vplug_rs import report
from vplug_rs.platforms import hints
from vplug_rs.platforms.judges.context import Case, seen
from vplug_rs.platforms.model import ABSENT, PRESENT, STRONG, WEAK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from vplug_rs.platforms.judges.context import Context
    from vplug_rs.platforms.model import Device, Evidence, Probe

PLUGINS = {"neuron": "vllm-neuron", "hpu": "vllm-gaudi", "npu": "vllm-ascend"}
"""The usual name of the plugin for each."""

_NAMES = {"neuron": "AWS Neuron device", "hpu": "Gaudi accelerator", "npu": "Ascend NPU"}


def judge(platform: str, evidence: Sequence[Evidence], devices: Sequence[Device], context: Context) -> Probe:
    """The judgement on Neuron, Gaudi, Ascend or Apple.

    Args:
        platform: "neuron", "hpu", "npu" or "apple".
        evidence: What the passive pass saw.
        devices: What it saw of devices.
        context: What else is known.
    """
    case = Case(platform, evidence, devices, context)
    if platform == "apple":
        return _apple(case)
    if case.has(STRONG):
        many = report.count(len(case.devices), _NAMES[platform]) if case.devices else f"a {_NAMES[platform]}"
        reason = f"{many} seen; the platform comes from a plugin"
        return case.close(PRESENT, reason, hint=hints.advise("out-of-tree", plugin=PLUGINS[platform]))
    weak = case.weighs(WEAK)
    return case.close(ABSENT, f"no {_NAMES[platform]}, only {seen(weak)}") if weak else case.nothing()


def _apple(case: Case) -> Probe:
    if case.context.system != "darwin" or case.context.machine != "arm64":
        return case.nothing()
    case.add("system", "call", "platform.machine()", "arm64", STRONG, "macOS on Apple silicon, whose GPU is built in")
    return case.close(PRESENT, "macOS on Apple silicon; vLLM itself runs on the CPU there")
