"""From probes to one platform: each row of the tables of conflicts, and each rule, on probes made by hand."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from platform_records import absent, cpu_build, machine, masked, plugin, present, row, torch, unknown, weak
from vplug_rs.platforms import advice, resolution
from vplug_rs.platforms.answers import PlatformAbsentError, PlatformError, PlatformUnknownError
from vplug_rs.platforms.classes import CLASSES, spoken_of
from vplug_rs.platforms.model import AGAINST, SKIPPED, STRONG, UNKNOWN, WEAK, Device, Probe
from vplug_rs.platforms.outside import Asked, key_of

if TYPE_CHECKING:
    from pathlib import Path

    from vplug_rs.platforms.model import Resolution

CUDA, ROCM, TPU, XPU, CPU = (CLASSES[name] for name in ("cuda", "rocm", "tpu", "xpu", "cpu"))
ONLY_ONE = "Only one platform plugin can be activated, but got: "


def resolve(
    *found: Probe, plugins: tuple[Probe, ...] = (), path: tuple[str, ...] | list[str] = (), **variables: Any
) -> Resolution:
    strict = variables.pop("strict", False)
    return resolution.resolve(
        probes=machine(*found), plugins=plugins, environment=variables, path=list(path), strict=strict
    )


def outcome(found: Resolution) -> tuple[str | None, str | None, str]:
    return found.platform, found.qualname, found.rule


def why_not(found: Resolution, name: str) -> str:
    return dict(found.rejected)[name]


@pytest.mark.parametrize("name", CLASSES)
def test_the_one_built_in_platform_that_is_here_counts(name: str) -> None:
    found = resolve(present(name))
    assert outcome(found) == (name, CLASSES[name], "builtin")
    assert found.warnings == []
    assert len(found.rejected) == len(found.probes) - 1
    assert why_not(found, "neuron") == "nothing of it is here"
    assert resolution.exit_status(found) == 0


def test_nothing_is_none_with_the_next_step() -> None:
    found = resolve()
    assert outcome(found) == (None, None, "none")
    assert resolution.exit_status(found) == 1
    assert "VLLM_TARGET_DEVICE=cpu" in str(advice.hint(found))


def test_what_is_masked_counts_as_in_vllm() -> None:
    assert outcome(resolve(masked("cuda"))) == ("cuda", CUDA, "builtin")


def test_a_cpu_build_on_a_gpu_host_is_cpu() -> None:
    for other in (absent("cuda", row("cuda.build", AGAINST)), present("rocm"), weak("tpu")):
        assert outcome(resolve(other, cpu_build())) == ("cpu", CPU, "builtin")
    assert why_not(resolve(weak("tpu"), cpu_build()), "tpu") == "the installed vLLM is a CPU build"


def test_cpu_wanted_with_an_accelerators_wheel_asks_nobody_else() -> None:
    def asker(_: Any) -> Asked:
        raise AssertionError("a plugin was asked")

    for word in ("cpu", "CPU"):
        found = resolution.resolve(
            probes=machine(present("cuda")), asker=asker, environment={"VLLM_TARGET_DEVICE": word}, path=[]
        )
        assert outcome(found) == ("cpu", CPU, "override")
        assert [probe.platform for probe in found.probes] == ["cpu"]
    zen = "vllm.platforms.zen_cpu.ZenCpuPlatform"
    assert resolve(present("cpu", qualname=zen), VLLM_TARGET_DEVICE="cpu").qualname == zen
    assert resolve(present("cuda"), VLLM_TARGET_DEVICE=" cpu").platform == "cuda", "vLLM strips nothing"


def test_an_nvidia_gpu_beside_an_amd_igpu_wins() -> None:
    found = resolve(present("cuda"), weak("rocm", "kfd"))
    assert outcome(found) == ("cuda", CUDA, "tie-break")
    assert "a device of cuda was seen" in why_not(found, "rocm")


def test_cuda_beside_a_leftover_libtpu_wins() -> None:
    assert outcome(resolve(present("cuda"), weak("tpu", "libtpu"))) == ("cuda", CUDA, "tie-break")


def test_of_two_seen_devices_the_installed_torch_decides(tmp_path: Path) -> None:
    both = (present("cuda"), present("rocm"))
    for kind, other in (("cuda", "rocm"), ("rocm", "cuda")):
        found = resolve(*both, path=torch(tmp_path, kind))
        assert outcome(found) == (kind, CLASSES[kind], "tie-break")
        assert why_not(found, other) == f"torch 2.9.0 is built for {kind}"
    with pytest.raises(PlatformError, match=r"\['cuda', 'rocm'\]"):
        resolve(*both, path=torch(tmp_path, "xpu"))


def test_of_two_weak_ones_the_installed_torch_decides(tmp_path: Path) -> None:
    both = (weak("rocm"), weak("xpu"))
    assert outcome(resolve(*both, path=torch(tmp_path, "xpu"))) == ("xpu", XPU, "tie-break")


def test_torch_decides_only_between_those_whose_device_was_seen(tmp_path: Path) -> None:
    with pytest.raises(PlatformError, match=r"\['cuda', 'tpu'\]"):
        resolve(present("cuda"), present("tpu"), weak("rocm"), path=torch(tmp_path, "rocm"))


def test_a_device_goes_before_the_torch_build_and_the_mismatch_is_told(tmp_path: Path) -> None:
    path = torch(tmp_path, "cuda")
    for found in (resolve(present("rocm"), weak("cuda"), path=path), resolve(present("rocm"), path=path)):
        assert found.qualname == ROCM
        (warning,) = found.warnings
        assert "the platform is rocm" in warning
        assert "torch 2.9.0 is built for cuda" in warning
    assert resolve(present("cuda"), path=path).warnings == []
    assert "is built for cpu" in resolve(present("cuda"), path=torch(tmp_path, "cpu")).warnings[0]


def test_several_that_nothing_decides_between_are_vllms_error_in_one_order() -> None:
    with pytest.raises(PlatformError) as caught:
        resolve(present("rocm"), present("cuda"))
    assert str(caught.value) == f"{ONLY_ONE}['cuda', 'rocm'] (cuda: cuda answered; rocm: rocm answered)"
    assert caught.value.hint == "Say which one is meant: VPLUG_PLATFORM=cuda, or rocm."
    assert caught.value.exit_status == 2


def test_a_platform_without_a_class_needs_a_plugin() -> None:
    found = resolve(present("npu"))
    assert outcome(found) == (None, None, "none")
    assert "no plugin for it is active" in why_not(found, "npu")
    assert "install the plugin for npu" in str(advice.hint(found))


# plugins


def test_one_plugin_wins_over_any_number_of_built_in_platforms() -> None:
    for built_in in ((), (present("cuda"),), (present("cuda"), present("rocm"))):
        found = resolve(*built_in, plugins=(plugin("spyre", "torch_spyre.platform.Spyre"),))
        assert outcome(found) == ("spyre", "torch_spyre.platform.Spyre", "oot")
        assert found.warnings == []
        for lost in built_in:
            assert why_not(found, lost.platform).startswith("spyre of acme-spyre 1.0 is a plugin")


def test_plugins_that_decline_leave_the_built_in_one() -> None:
    found = resolve(present("cuda"), plugins=(plugin("a", None, reason="it says no"), plugin("b", None)))
    assert outcome(found) == ("cuda", CUDA, "builtin")
    assert why_not(found, "a of acme-a 1.0") == "it says no"


def test_a_plugin_that_claims_hardware_that_is_not_seen_is_obeyed_and_told() -> None:
    ascend = plugin("ascend", "vllm_ascend.platform.NPUPlatform", of="vllm-ascend")
    cuda = present("cuda", devices=[Device(0), Device(1)])
    found = resolve(cuda, plugins=(ascend,))
    assert found.qualname == "vllm_ascend.platform.NPUPlatform"
    (warning,) = found.warnings
    assert warning.startswith(
        "the platform plugin ascend of vllm-ascend 1.0 claims npu, of which nothing is seen here;"
    )
    assert warning.endswith("what is seen is cuda (2 devices)")
    assert resolve(plugins=(ascend,)).warnings == [], "nothing else is here"
    npu = present("npu", row("npu.control", WEAK), qualname=None)
    assert resolve(cuda, npu, plugins=(ascend,)).warnings == [], "something of it is here"
    assert resolve(cuda, plugins=(plugin("tt", "tt.Platform"),)).warnings == [], "nobody can look for that"


@pytest.mark.parametrize(
    ("texts", "platform"),
    [
        (("vllm-ascend",), "npu"),
        (("metal", "vllm-metal 0.1"), "apple"),
        (("x", "y", "vllm_gaudi.platform.HpuPlatform"), "hpu"),
        (("tpu", "vllm-nvidia"), "tpu"),
        (("rbln", "vllm-rbln 0.9", "vllm_rbln.platform.RblnPlatform"), None),
        (("chip", "wintpu"), None),
    ],
)
def test_what_the_names_of_a_plugin_speak_of(texts: tuple[str, ...], platform: str | None) -> None:
    assert spoken_of(*texts) == platform


def test_a_plugin_that_failed_leaves_the_built_in_one_and_is_no_success() -> None:
    broken = plugin(
        "ascend", None, status=UNKNOWN, reason="it failed at import: ImportError: libascend", hint="Mend it."
    )
    found = resolve(present("cuda"), plugins=(broken,))
    assert outcome(found) == ("cuda", CUDA, "builtin")
    (warning,) = found.warnings
    assert warning.startswith(
        "the platform plugin ascend of acme-ascend 1.0 does not count, for it gave no usable answer:"
    )
    assert warning.endswith(" it failed at import: ImportError: libascend (Mend it.)")
    assert resolution.exit_status(found) == 3
    assert not resolution.is_certain(found)
    assert advice.hint(found) == "Mend it."
    alone = resolve(plugins=(broken,))
    assert (outcome(alone), advice.hint(alone)) == ((None, None, "none"), "Mend it.")


def test_two_names_of_one_class_agree() -> None:
    both = (plugin("second", "acme.Platform"), plugin("first", "acme.Platform", of="acme"))
    found = resolve(plugins=both)
    assert outcome(found) == ("first", "acme.Platform", "oot")
    assert why_not(found, "second of acme-second 1.0") == "first of acme 1.0 names the same class"
    (warning,) = found.warnings
    assert warning.startswith("the platform plugins first of acme 1.0 and second of acme-second 1.0 name one class")
    same_name = (plugin("npu", "acme.Platform"), plugin("npu", "acme.Platform", of="acme"))
    assert resolve(plugins=same_name).warnings == [], "vLLM knows names alone"
    with pytest.raises(PlatformError, match=r"got: \['first', 'second'\]$"):
        resolve(plugins=both, strict=True)


def test_two_vendors_are_an_error_with_the_one_line_that_mends_it() -> None:
    both = [plugin("tt", "tt.Platform"), plugin("rbln", "rbln.Platform")]
    told = f"{ONLY_ONE}['rbln', 'tt'] (rbln of acme-rbln 1.0 is rbln.Platform; tt of acme-tt 1.0 is tt.Platform)"
    for order in itertools.permutations(both):
        with pytest.raises(PlatformError) as caught:
            resolve(present("cuda"), plugins=tuple(order))
        assert str(caught.value) == told
        assert str(caught.value.hint).startswith("Say which one is meant: VPLUG_PLATFORM=rbln, or tt;")
        assert caught.value.exit_status == 2
    assert resolve(plugins=tuple(both), VPLUG_PLATFORM="tt").qualname == "tt.Platform"


def test_two_distributions_with_one_name_are_told_apart() -> None:
    both = (plugin("npu", "a.Platform", of="acme"), plugin("npu", "b.Platform", of="Other.Co"))
    with pytest.raises(PlatformError) as caught:
        resolve(plugins=both)
    assert str(caught.value).startswith(f"{ONLY_ONE}['Other.Co:npu', 'acme:npu'] (")
    assert str(caught.value.hint).startswith("Say which one is meant: VPLUG_PLATFORM=Other.Co:npu, or acme:npu;")
    with pytest.raises(PlatformError) as caught:
        resolve(plugins=(*both, plugin("tt", "tt.Platform")))
    assert str(caught.value).startswith(f"{ONLY_ONE}['Other.Co:npu', 'acme:npu', 'acme-tt:tt'] ("), (
        "one spelling for all"
    )
    assert resolve(plugins=both, VPLUG_PLATFORM="other_co:npu").qualname == "b.Platform"


def test_of_two_lines_of_one_name_in_one_distribution_the_one_that_answers_is_what_was_ordered() -> None:
    both = [plugin("npu", None, of="acme"), plugin("npu", "acme.Platform", of="acme")]
    for order in itertools.permutations(both):
        assert resolve(plugins=order, VPLUG_PLATFORM="npu").qualname == "acme.Platform"


def test_what_two_plugins_say_alike_is_told_once() -> None:
    failed = (plugin("npu", None, of="acme", status=UNKNOWN, reason="no module `acme`"),) * 2
    found = resolve(present("cuda"), plugins=failed)
    assert found.warnings == [advice.failed(failed[0])]
    rivals = [plugin("tt", "tt.Platform"), plugin("rbln", "rbln.Platform")]
    with pytest.raises(PlatformError) as caught:
        resolve(plugins=(*failed, *rivals))
    assert caught.value.warnings == found.warnings


def test_a_plugin_called_as_a_built_in_platform_hides_nobody() -> None:
    declines = plugin("cuda", None)
    found = resolve(present("cuda"), plugins=(declines,))
    assert outcome(found) == ("cuda", CUDA, "builtin")
    assert why_not(found, "cuda of acme-cuda 1.0") == "as the plugin says"
    found = resolve(unknown("cuda"), plugins=(plugin("cuda", "acme.Cuda"),))
    assert outcome(found) == ("cuda", "acme.Cuda", "oot")
    assert resolution.is_certain(found)


# orders


def test_an_order_asks_that_one_alone() -> None:
    asked: list[Any] = []

    def asker(only: Any) -> Asked:
        asked.append(only)
        return Asked([plugin("tt", "tt.Platform")])

    found = resolution.resolve(
        probes=machine(present("cuda"), present("rocm")), asker=asker, environment={"VPLUG_PLATFORM": " rocm "}, path=[]
    )
    assert (outcome(found), asked) == (("rocm", ROCM, "override"), [])
    assert [probe.platform for probe in found.probes] == ["rocm"]
    two = (plugin("tt", "tt.Platform"), plugin("rbln", None, status=UNKNOWN))
    found = resolve(present("cuda"), plugins=two, VPLUG_PLATFORM="tt")
    assert outcome(found) == ("tt", "tt.Platform", "override")
    assert [probe.platform for probe in found.probes] == ["tt"]


def test_an_unknown_name_tells_what_there_is() -> None:
    with pytest.raises(PlatformError) as caught:
        resolve(plugins=(plugin("ascend", None),), VPLUG_PLATFORM="cudda")
    assert str(caught.value) == (
        "VPLUG_PLATFORM is `cudda`, and no platform is called so; there are tpu, cuda, rocm, xpu, cpu, "
        "ascend (a plugin of acme-ascend 1.0)"
    )
    assert caught.value.hint == "Did you mean `cuda`?"
    assert caught.value.exit_status == 2
    with pytest.raises(PlatformError) as caught:
        resolve(plugins=(plugin("ascend", None),), VPLUG_PLATFORM="acme-ascnd:ascend")
    assert caught.value.hint == "Did you mean `acme-ascend:ascend`?"


def test_the_name_of_hardware_without_its_plugin_is_no_slip() -> None:
    with pytest.raises(PlatformError, match="vLLM has no such platform of its own") as caught:
        resolve(present("npu"), VPLUG_PLATFORM="npu")
    assert caught.value.hint == "Install the plugin for npu, and name that."


def test_a_name_that_a_plugin_shares_has_to_be_told_apart() -> None:
    here = (plugin("cuda", "acme.Cuda"),)
    with pytest.raises(PlatformError, match="acme-cuda:cuda, builtin:cuda"):
        resolve(present("cuda"), plugins=here, VPLUG_PLATFORM="cuda")
    assert resolve(present("cuda"), plugins=here, VPLUG_PLATFORM="builtin:cuda").qualname == CUDA
    assert resolve(present("cuda"), plugins=here, VPLUG_PLATFORM="acme-cuda:cuda").qualname == "acme.Cuda"


def test_a_class_can_be_ordered() -> None:
    zen = "vllm.platforms.zen_cpu.ZenCpuPlatform"
    assert outcome(resolve(cpu_build(), VPLUG_PLATFORM=zen)) == ("cpu", zen, "override")
    found = resolve(present("cuda"), VPLUG_PLATFORM="acme.platform.Mine")
    assert outcome(found) == ("acme.platform.Mine", "acme.platform.Mine", "override")
    with pytest.raises(PlatformAbsentError):
        resolve(VPLUG_PLATFORM=CUDA)


def test_an_order_without_the_hardware_needs_force() -> None:
    with pytest.raises(PlatformAbsentError) as caught:
        resolve(absent("cuda", reason="no NVIDIA GPU", hint="load the module"), VPLUG_PLATFORM="cuda")
    assert str(caught.value) == "VPLUG_PLATFORM is `cuda`, and cuda is not here: no NVIDIA GPU"
    assert (
        caught.value.hint
        == "load the module. Unset VPLUG_PLATFORM, or take it all the same with VPLUG_PLATFORM_FORCE=1."
    )
    assert caught.value.exit_status == 1
    found = resolve(VPLUG_PLATFORM="cuda", VPLUG_PLATFORM_FORCE="on")
    assert outcome(found) == ("cuda", CUDA, "override")
    assert found.warnings == ["cuda counts by force, and absent: nothing of it is here"]


def test_an_ordered_plugin_that_will_not_do_is_an_error() -> None:
    for status, error, text in (
        (UNKNOWN, PlatformUnknownError, "gave no usable answer: because"),
        (SKIPPED, PlatformError, "cannot be used: because"),
        ("absent", PlatformAbsentError, "names no class: because"),
    ):
        with pytest.raises(error, match=text) as caught:
            resolve(plugins=(plugin("tt", None, status=status, reason="because"),), VPLUG_PLATFORM="tt")
        assert type(caught.value) is error


def test_an_ordered_plugin_that_nobody_asked_is_not_known() -> None:
    listed = plugin("tt", None, status=SKIPPED)
    listed.evidence[0].result = "not asked"
    with pytest.raises(PlatformUnknownError, match=r"the plugin tt of acme-tt 1\.0 was not asked"):
        resolve(plugins=(listed,), VPLUG_PLATFORM="tt")


def test_a_class_that_vllm_nearly_has_is_told() -> None:
    found = resolve(VPLUG_PLATFORM="vllm.platforms.cuda.CudaPlatfrom")
    assert found.qualname == "vllm.platforms.cuda.CudaPlatfrom"
    assert f"`{CUDA}`?" in found.warnings[0]
    for name in ("tt.Platform", "vllm_ascend.platform.NPUPlatform", "vllm_gaudi.platform.HpuPlatform"):
        assert resolve(VPLUG_PLATFORM=name).warnings == []


def test_an_error_keeps_what_plugins_said_and_what_is_odd() -> None:
    two = (plugin("tt", "tt.Platform"), plugin("rbln", "rbln.Platform"), plugin("bad", None, status=UNKNOWN))
    with pytest.raises(PlatformError) as caught:
        resolve(plugins=two, VPLUG_PROBE_TIMEOUT="soon")
    assert [probe.platform for probe in caught.value.plugins] == ["tt", "rbln", "bad"]
    assert [text.partition(" of ")[0] for text in caught.value.warnings] == [
        "VPLUG_PROBE_TIMEOUT is 'soon', which is no number",
        "the platform plugin bad",
    ]
    with pytest.raises(PlatformError) as caught:
        resolve(VPLUG_PLATFORM="cuda", VPLUG_PLATFORM_FORCE="maybe")
    assert "VPLUG_PLATFORM_FORCE is 'maybe'" in caught.value.warnings[0]


def test_an_order_goes_before_vllms_and_both_are_told() -> None:
    found = resolve(present("cuda"), VPLUG_PLATFORM="cuda", VLLM_TARGET_DEVICE="cpu")
    assert (found.qualname, found.warnings) == (
        CUDA,
        ["VLLM_TARGET_DEVICE is cpu, and VPLUG_PLATFORM is 'cuda'; the latter counts"],
    )


def test_words_that_are_none_are_told_and_do_not_count() -> None:
    found = resolve(present("cuda"), VPLUG_PLATFORM="cuda", VPLUG_PLATFORM_FORCE="maybe")
    assert "VPLUG_PLATFORM_FORCE is 'maybe'" in found.warnings[0]
    found = resolve(unknown("cuda"), VPLUG_ON_UNKNOWN="perhaps")
    assert "VPLUG_ON_UNKNOWN is 'perhaps', which is none of none, error, assume" in found.warnings[0]
    assert found.qualname is None
    found = resolve(present("cuda"), VPLUG_PROBE_TIMEOUT="soon")
    assert found.warnings == ["VPLUG_PROBE_TIMEOUT is 'soon', which is no number of seconds; the default counts"]


@pytest.mark.parametrize(
    ("variables", "asked"),
    [
        ({"VPLUG_PLATFORM": "cuda"}, None),
        ({"VPLUG_PLATFORM": "cuda", "VPLUG_PLATFORM_FORCE": "1"}, False),
        ({"VPLUG_PLATFORM": "rocm"}, False),
        ({"VLLM_TARGET_DEVICE": "cpu"}, False),
    ],
)
def test_an_order_bothers_no_driver_whose_answer_does_not_count(
    variables: dict[str, str], asked: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool | None] = []

    def probe(root: str, *, active: bool | None, **_: Any) -> list[Probe]:
        seen.append(active)
        return machine(present("cuda"), present("rocm"))

    monkeypatch.setattr("vplug_rs.platforms.probing.probe", probe)
    resolution.resolve(environment=variables, path=[])
    assert seen == [asked]


def test_a_time_limit_holds_for_plugins_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []

    def ask_isolated(only: Any, *, seconds: float, **_: Any) -> Asked:
        seen.append(seconds)
        return Asked([])

    monkeypatch.setattr("vplug_rs.platforms.outside.ask_isolated", ask_isolated)
    for timeout in (2.5, None):
        resolution.resolve(probes=machine(present("cuda")), environment={}, path=[], timeout=timeout)
    assert seen == [2.5, 60.0]


def test_an_order_gets_the_next_step_unless_it_is_forced() -> None:
    closed = present("cuda", hint="unset CUDA_VISIBLE_DEVICES")
    assert advice.hint(resolve(closed, VPLUG_PLATFORM="cuda")) == "unset CUDA_VISIBLE_DEVICES"
    gone = absent("cuda", hint="install a driver")
    assert advice.hint(resolve(gone, VPLUG_PLATFORM="cuda", VPLUG_PLATFORM_FORCE="1")) is None
    assert advice.hint(resolve(gone, VPLUG_PLATFORM="tt.Platform")) is None


def test_a_broken_driver_is_to_be_mended_before_a_plugin() -> None:
    error = row("cuda.nvml", AGAINST, kind="call", result="error 18")
    broken = absent("cuda", row("cuda.pci", STRONG), error, hint="reload the driver")
    failed = plugin("tt", None, status=UNKNOWN, hint="mend the plugin")
    assert advice.hint(resolve(broken, plugins=(failed,))) == "reload the driver"
    assert advice.hint(resolve(plugins=(failed,))) == "mend the plugin"


# unknown


def test_an_unknown_platform_is_none_and_names_what_was_seen() -> None:
    found = resolve(unknown("cuda", hint="raise the limit"))
    assert outcome(found) == (None, None, "none")
    (warning,) = found.warnings
    assert warning == (
        "whether the platform cuda is here is not known, though there is where cuda.pci is: a device of cuda is there "
        "(the driver did not answer within 10 s)"
    )
    assert resolution.exit_status(found) == 3
    assert not resolution.is_certain(found)
    assert advice.hint(found) == "raise the limit"


def test_on_unknown_can_be_an_error() -> None:
    with pytest.raises(PlatformUnknownError, match="whether the platform cuda is here is not known") as caught:
        resolve(unknown("cuda"), VPLUG_ON_UNKNOWN="error")
    assert caught.value.exit_status == 3
    assert isinstance(caught.value, PlatformError)


def test_on_unknown_can_be_to_assume_what_was_seen() -> None:
    found = resolve(unknown("cuda"), VPLUG_ON_UNKNOWN=" Assume ")
    assert outcome(found) == ("cuda", CUDA, "builtin")
    assert found.warnings[-1] == "cuda is assumed to be here (VPLUG_ON_UNKNOWN=assume)"
    assert not resolution.is_certain(found), "it is never kept"
    nothing_seen = unknown("cuda", row("cuda.library", WEAK))
    assert resolve(nothing_seen, VPLUG_ON_UNKNOWN="assume").qualname is None


def test_an_unknown_platform_counts_only_where_it_could_change_the_outcome() -> None:
    # a device of another vendor was seen, and of this one only a library
    found = resolve(present("rocm"), unknown("cuda", row("cuda.library", WEAK)))
    assert outcome(found) == ("rocm", ROCM, "builtin")
    assert found.warnings[0].endswith("what counts would count all the same")
    assert resolution.is_certain(found)
    assert resolution.exit_status(found) == 0
    # a device of this one was seen, and of the other one only a library
    found = resolve(weak("tpu", "libtpu"), unknown("cuda"))
    assert outcome(found) == (None, None, "none")
    assert why_not(found, "tpu") == "an unknown platform could count in its place"
    assert outcome(resolve(weak("tpu"), unknown("cuda"), VPLUG_ON_UNKNOWN="assume"))[:2] == ("cuda", CUDA)
    assert outcome(resolve(unknown("cuda"), cpu_build()))[:2] == ("cpu", CPU)


def test_an_ordered_platform_that_is_unknown_follows_the_same_variable() -> None:
    found = resolve(unknown("cuda"), VPLUG_PLATFORM="cuda")
    assert (found.qualname, resolution.exit_status(found)) == (None, 3)
    with pytest.raises(PlatformUnknownError):
        resolve(unknown("cuda"), VPLUG_PLATFORM="cuda", VPLUG_ON_UNKNOWN="error")
    found = resolve(unknown("cuda"), VPLUG_PLATFORM="cuda", VPLUG_ON_UNKNOWN="assume")
    assert (found.qualname, resolution.is_certain(found)) == (CUDA, False)


def test_an_ordered_platform_is_assumed_only_where_a_device_was_seen() -> None:
    library = unknown("cuda", row("cuda.library", WEAK))
    assert resolve(library, VPLUG_PLATFORM="cuda", VPLUG_ON_UNKNOWN="assume").qualname is None
    assert resolve(unknown("cuda"), VPLUG_PLATFORM="cuda", VPLUG_ON_UNKNOWN="assume").qualname == CUDA


def test_an_unknown_platform_that_vllm_has_no_class_for_changes_nothing() -> None:
    assert outcome(resolve(present("cuda"), unknown("npu")))[:2] == ("cuda", CUDA)


def test_a_broken_driver_is_no_mere_absence() -> None:
    refused = row("cuda.nvml", AGAINST, "other versions", kind="call", result="error 18")
    found = resolve(absent("cuda", row("cuda.pci", STRONG), refused, hint="reboot"))
    assert (resolution.exit_status(found), advice.hint(found)) == (3, "reboot")
    assert resolution.is_certain(found), "it is known"
    none_given = row("cuda.nvml", AGAINST, "NVML counts no GPU", kind="call", result="0")
    assert resolution.exit_status(resolve(absent("cuda", row("cuda.pci", STRONG), none_given))) == 1


# vLLM's rule alone


def test_strict_has_no_tie_breaks_and_vllms_words(tmp_path: Path) -> None:
    for pair in ((present("cuda"), weak("rocm")), (weak("tpu"), present("cuda")), (present("cuda"), cpu_build())):
        names = sorted(probe.platform for probe in pair)
        with pytest.raises(PlatformError) as caught:
            resolve(*pair, strict=True, path=torch(tmp_path / names[1], "cuda"))
        assert str(caught.value) == f"{ONLY_ONE}{names}"
        assert isinstance(caught.value, RuntimeError)


def test_strict_knows_plugins_by_name_alone() -> None:
    doubles = (plugin("npu", "a.Platform", of="a"), plugin("npu", "b.Platform", of="b"))
    assert resolve(plugins=doubles, strict=True).qualname == "b.Platform"
    with pytest.raises(PlatformError) as caught:
        resolve(plugins=(plugin("b", "b.P"), plugin("a", "a.P")), strict=True)
    assert str(caught.value) == f"{ONLY_ONE}['a', 'b']"


def test_strict_takes_a_failed_driver_for_none_where_another_is_here() -> None:
    assert outcome(resolve(present("rocm"), unknown("cuda"), strict=True)) == ("rocm", ROCM, "builtin")
    assert resolve(unknown("cuda"), strict=True).qualname is None


def test_strict_follows_vllms_variable_and_not_ours() -> None:
    found = resolve(present("cuda"), strict=True, VPLUG_PLATFORM="rocm")
    assert found.qualname == CUDA
    assert "does not count" in found.warnings[0]
    assert resolve(present("cuda"), strict=True, VLLM_TARGET_DEVICE="cpu").qualname == CPU


def test_the_same_probes_give_the_same_answer_in_any_order() -> None:
    probes = machine(present("cuda"), weak("rocm"), weak("tpu"))
    plugins = [plugin("a", None), plugin("b", "b.P"), plugin("c", "b.P")]
    seen = set()
    for rest in itertools.permutations(probes[:4]):
        for order in itertools.permutations(plugins):
            found = resolution.resolve(probes=[*rest, *probes[4:]], plugins=order, environment={}, path=[])
            seen.add((*outcome(found), frozenset(found.rejected)))
    assert len(seen) == 1


def test_what_a_resolution_was_given_it_leaves_alone() -> None:
    probes = machine(unknown("cuda"))
    before = [probe.as_dict() for probe in probes]
    resolution.resolve(probes=probes, plugins=[], environment={"VPLUG_ON_UNKNOWN": "assume"}, path=[])
    assert [probe.as_dict() for probe in probes] == before


def test_a_plugin_counts_by_its_distribution_in_any_spelling() -> None:
    assert key_of(plugin("npu", None, of="Acme_Npu")) == ("acme_npu", "npu")
