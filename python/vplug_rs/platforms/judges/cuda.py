"""NVIDIA GPUs: what files say, then what NVML answered in a process of its own.

Some errors of NVML are an answer (`codes.DEFINITE`): there is nothing to be used, and why is known. All others, and
silence, are none: the platform is unknown then, and never absent.
"""

from __future__ import annotations

from vplug_rs import report
from vplug_rs.platforms import hints, masks
from vplug_rs.platforms.classes import CLASSES
from vplug_rs.platforms.judges import codes, cuda_hints
from vplug_rs.platforms.judges.context import LIBCUDA, NVML, OTHER_NVML, Case, seen, sentence
from vplug_rs.platforms.model import ABSENT, AGAINST, INFO, PRESENT, STRONG, UNKNOWN, WEAK, Device

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from vplug_rs.platforms.judges.context import Context
    from vplug_rs.platforms.model import Evidence, Probe

QUALNAME = CLASSES["cuda"]


def needs_nvml(evidence: Iterable[Evidence]) -> bool:
    """Whether anything speaks for an NVIDIA GPU, so that asking the driver is worth a process."""
    return any(one.weight in {STRONG, WEAK} for one in evidence)


def judge(evidence: Sequence[Evidence], devices: Sequence[Device], context: Context) -> Probe:
    """The judgement on CUDA.

    Args:
        evidence: What the passive pass saw.
        devices: The GPUs that it saw.
        context: What else is known; `answers` has NVML's if it was asked.
    """
    case = Case("cuda", evidence, devices, context)
    answer = context.answers.get(NVML)
    if answer is None and not needs_nvml(evidence):
        return case.nothing()
    if answer is None or answer.outcome != "answered":
        _add_versions(case)
    case.add_torch()
    vllm = context.vllm
    if vllm is not None and vllm.is_cpu:
        case.add("build", "dist", vllm.distribution, vllm.version, AGAINST, "this vLLM is a build for CPUs")
        reason = f"{vllm.distribution} {vllm.version} is a build for CPUs"
        hint = hints.advise("cpu-build", distribution=vllm.distribution, version=vllm.version)
        return case.close(ABSENT, reason, hint=hint if case.has(STRONG) else None)
    if answer is None:
        return _unasked(case)
    _add_modules(case, answer)
    case.take_answer(NVML)
    if answer.outcome == "answered":
        return _answered(case, answer)
    return _refused(case, answer) if answer.outcome == "error" else _silent(case, answer)


def _add_versions(case: Case) -> None:
    kernel, library = (case.context.facts.get(name) for name in ("cuda.kernel", "cuda.library"))
    if kernel and library and kernel != library:
        where = case.context.facts.get("cuda.library_path", "libnvidia-ml.so.1")
        text = f"the kernel module is {kernel}: NVML refuses other versions than its own"
        case.add("mismatch", "lib", where, library, AGAINST, text)


def _add_modules(case: Case, answer: Any) -> None:
    file, shadow = case.context.pynvml
    if file is not None:
        case.add("pynvml", "module", file, "", INFO, "NVIDIA's Python binding, loaded from this file")
    if shadow is not None:
        case.add("shadow", "module", shadow, "", INFO, "`import pynvml` takes this folder and not NVIDIA's file")
    for note in answer.notes:
        case.add("note", "call", answer.backend, "", INFO, sentence(note))


def _unasked(case: Case) -> Probe:
    """Files alone: a GPU that is seen counts, as far as nothing speaks against it."""
    if case.those("mismatch"):
        reason = f"{cuda_hints.versions(case)}; NVML was not asked"
        return case.close(UNKNOWN, reason, hint=cuda_hints.of_mismatch(case))
    if _is_closed(case):
        reason = "this user may not open NVIDIA's nodes; NVML was not asked"
        return case.close(UNKNOWN, reason, hint=cuda_hints.of_closed(case))
    hint: str | None
    if case.has(STRONG):
        reason = "seen, not confirmed: NVML was not asked"
        hint = cuda_hints.of_files(case) or cuda_hints.of_mig(case) or case.torch_hint()
        return case.close(PRESENT, reason, qualname=QUALNAME, hint=hint, hiding=_masks(case))
    if case.those("pci"):
        reason = "the GPUs on the PCI bus are set aside for virtual machines; NVML was not asked"
        return case.close(ABSENT, reason, hint=hints.advise("no-gpu-given"))
    weak = case.weighs(WEAK)
    if case.those("wsl"):
        reason = f"a GPU under WSL that may be anyone's, seen by {seen(weak)}; neither NVML nor libcuda was asked"
        return case.close(UNKNOWN, reason, hint=hints.advise("wsl-not-asked"))
    bare = case.those("driver") and not case.those("library")
    hint = hints.advise("container-without-runtime") if bare else None
    return case.close(ABSENT, f"no GPU, only {seen(weak)}; NVML was not asked", hint=hint)


def _is_closed(case: Case) -> bool:
    """Whether this user can open no GPU's node, or not the one that all go through."""
    nodes, closed = case.those("node"), {one.subject for one in case.those("access")}
    through = any(node.subject in closed for node in case.those("control"))
    return through or (bool(nodes) and all(node.subject in closed for node in nodes))


def _answered(case: Case, answer: Any) -> Probe:
    count = answer.count or 0
    gpus = report.count(count, "GPU")
    weight = STRONG if count else AGAINST
    text = f"NVML counts {gpus}" if count else "NVML counts no GPU"
    case.add("nvml", "call", "nvmlDeviceGetCount_v2", str(count), weight, text)  # `answer.call` is the last one
    _compare(case)
    hint: str | None
    if not count:
        hint = hints.advise("no-gpu-given") if case.those("pci") else None
        return case.close(ABSENT, "NVML counts no GPU", hint=hint)
    case.devices = codes.merge(answer.devices, case.devices)
    lost = [device for device in case.devices if device.status == UNKNOWN]
    hiding = _masks(case)
    _add_order(case, hiding)
    if _add_cut_short(case, answer):
        reason, hint = f"NVML counts {gpus}, and did not come to its end", cuda_hints.of_cut_short(case, NVML)
    elif _add_all_lost(case, hiding):
        reason, hint = f"NVML counts {gpus}, and none that may be used answers", hints.advise("gpu-lost")
    elif lost:
        reason, hint = f"NVML counts {gpus} and has lost {len(lost)} of them", hints.advise("gpu-lost")
    else:
        reason = f"NVML counts {gpus}"
        hint = cuda_hints.of_mig(case) or case.torch_hint() or cuda_hints.of_shadow(case)
    return case.close(PRESENT, reason, qualname=QUALNAME, hint=hint, hiding=hiding)


def _add_cut_short(case: Case, answer: Any) -> bool:
    """Whether the driver counted its GPUs and then hung, died or ended the process: so will it for others."""
    if not answer.cut_short:
        return False
    told = sentence(answer.notes[-1]) if answer.notes else "NVML did not come to its end"
    case.add("cut-short", "call", answer.call, case.context.ends.get(NVML, ""), AGAINST, told)
    return True


def _add_all_lost(case: Case, hiding: Sequence[masks.Mask]) -> bool:
    """Whether no GPU is left that answers and that the environment leaves visible: they count, and none can be used."""
    masks.apply(hiding, case.devices)
    visible = [device for device in case.devices if device.visible is not False]
    if not visible or any(device.status != UNKNOWN for device in visible):
        return False
    text = "the driver counts its GPUs, and answers for none that may be used"
    case.add("all-lost", "call", "nvmlDeviceGetHandleByIndex_v2", "lost", AGAINST, text)
    return True


def _refused(case: Case, answer: Any) -> Probe:
    """An error: an answer, or the sign that none can be had."""
    code = answer.code
    definite = code in codes.DEFINITE
    versions = cuda_hints.versions(case) if code == codes.MISMATCH else ""
    error = ": ".join(part for part in (f"NVML error {code}", versions or codes.MEANINGS.get(code, "")) if part)
    case.add("nvml", "call", answer.call, f"error {code}", AGAINST, versions or sentence(answer.text) or error)
    _compare(case)
    if case.those("tegra"):
        reason = f"a Tegra board, whose NVML need not answer ({error})"
        return case.close(PRESENT, reason, qualname=QUALNAME, hint=case.torch_hint(), hiding=_masks(case))
    second = case.context.answers.get(LIBCUDA)
    if second is not None:
        return _second_opinion(case, second, error)
    hint = cuda_hints.of_error(case, code)
    if codes.wants_second_opinion(case.evidence, answer):
        return case.close(UNKNOWN, f"{error}, and libcuda, which may know better under WSL, was not asked", hint=hint)
    return case.close(ABSENT if definite else UNKNOWN, error, hint=hint)


def _second_opinion(case: Case, second: Any, error: str) -> Probe:
    """What libcuda says under WSL, where NVML says that there is no driver."""
    count = (second.count or 0) if second.outcome == "answered" else 0
    silent = second.outcome == "unknown"
    weight = STRONG if count else INFO if silent else AGAINST
    said = str(count) if second.outcome == "answered" else f"error {second.code}" if second.code is not None else ""
    case.add("second-opinion", "call", second.call, said, weight, sentence(second.text))
    case.backend = second.backend
    if count:
        case.devices = case.devices or [Device(index) for index in range(count)]
        reason = f"libcuda counts {report.count(count, 'GPU')} under WSL, though NVML does not work ({error})"
        return case.close(PRESENT, reason, qualname=QUALNAME, hint=case.torch_hint(), hiding=_masks(case))
    if silent and second.call == "dlopen" and case.context.ends.get(LIBCUDA) == "exited":
        # there is a GPU, and nobody who could say whose was found
        reason = f"a GPU under WSL that may be anyone's: {error}, and libcuda cannot be loaded"
        return case.close(UNKNOWN, reason, hint=hints.advise("wsl"))
    if silent:
        reason = f"{error}, and libcuda did not answer: {sentence(second.text)}"
        return case.close(UNKNOWN, reason, hint=cuda_hints.of_silence(case, LIBCUDA))
    if second.outcome == "error" and second.code != codes.NO_DEVICE:
        reason = f"{error}, and libcuda does not work either: {sentence(second.text)}"
        return case.close(UNKNOWN, reason, hint=hints.advise("wsl"))
    return case.close(ABSENT, f"{error}, and libcuda has no GPU either", hint=hints.advise("wsl"))


def _silent(case: Case, answer: Any) -> Probe:
    """A time-out, a crash, an answer that is none."""
    text = sentence(answer.text) or "NVML did not answer"
    case.add("nvml", "call", answer.call, "", INFO, text)
    _compare(case)
    return case.close(UNKNOWN, text, hint=cuda_hints.of_silence(case, NVML))


def _masks(case: Case) -> list[masks.Mask]:
    return masks.cuda(case.context.environment)


def _add_order(case: Case, hiding: Sequence[masks.Mask]) -> None:
    """CUDA numbers the fastest GPU first, and NVML by address: with GPUs that differ, numbers may mean others."""
    names = {device.name for device in case.devices}
    order = case.context.environment.get(masks.CUDA_ORDER, "")
    if len(names) > 1 and order != "PCI_BUS_ID" and any(mask.numbers for mask in hiding):
        text = "the GPUs differ, and CUDA numbers the fastest first: which are visible is sure with PCI_BUS_ID only"
        case.add("order", "env", masks.CUDA_ORDER, order, INFO, text)


def _compare(case: Case) -> None:
    """What NVML answers in the other way, if both were asked."""
    first, other = case.context.answers[NVML], case.context.answers.get(OTHER_NVML)
    if other is None:
        return
    same = (first.outcome, first.count, first.code) == (other.outcome, other.count, other.code)
    text = "both ways of asking NVML agree" if same else f"another answer than {first.backend}: {sentence(other.text)}"
    said = f"error {other.code}" if other.code is not None else "" if other.count is None else str(other.count)
    case.add("backends", "call", other.backend, said, INFO, text)
