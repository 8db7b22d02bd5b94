"""Platform classes: the least that one has to bring, what is left at vLLM's default, what vLLM cannot call."""

from __future__ import annotations

from pathlib import Path

import pytest

from vllm_bed import VllmBed
from vplug_rs.groups import PLATFORM

GOOD = """
from vllm.platforms.interface import Platform, PlatformEnum
class Chip(Platform):
    _enum = PlatformEnum.OOT
    device_type = "chip"
    device_name = "chip"
    dispatch_key = "PrivateUse1"
    ray_device_key = "CHIP"
    device_control_env_var = "CHIP_VISIBLE_DEVICES"
    dist_backend = "ccl"
    @classmethod
    def check_and_update_config(cls, vllm_config): ...
    @classmethod
    def get_attn_backend_cls(cls, selected_backend, *args, **kwargs): return "acme.Attention"
    @classmethod
    def get_device_communicator_cls(cls): return "acme.Communicator"
    @classmethod
    def get_device_name(cls, device_id=0): ...
    @classmethod
    def get_device_uuid(cls, device_id=0): ...
    @classmethod
    def get_device_total_memory(cls, device_id=0): ...
    @classmethod
    def get_all_gpu_pci_bus_ids(cls): ...
    @classmethod
    def set_device(cls, device): ...
    @classmethod
    def manual_seed_all(cls, seed): ...
"""
WHO = "plugin `chip` of acme-chip 3.1 (`chip_mod.Chip`)"


def findings(tmp_path: Path, source: str) -> list[list[str]]:
    bed = VllmBed(tmp_path, PLATFORM).offer("chip", source, "chip_mod:Chip", version="3.1")
    return bed.findings("platform", "chip")


def test_a_whole_platform_has_no_findings(tmp_path: Path) -> None:
    assert findings(tmp_path, GOOD) == []


@pytest.mark.parametrize(
    ("line", "instead", "finding"),
    [
        (
            "    _enum = PlatformEnum.OOT\n",
            "",
            ["error", f"{WHO}: there is no `_enum`", "Set `_enum = PlatformEnum.OOT`."],
        ),
        (
            "PlatformEnum.OOT\n",
            "'oot'\n",
            ["error", f"{WHO}: `_enum` is str and no `PlatformEnum`", "Set `_enum = PlatformEnum.OOT`."],
        ),
        (
            "PlatformEnum.OOT\n",
            "PlatformEnum.CUDA\n",
            [
                "warning",
                f"{WHO}: `_enum` is `CUDA`, so vLLM takes it for that platform",
                "Set `_enum = PlatformEnum.OOT`.",
            ],
        ),
        (
            '    device_type = "chip"\n',
            "",
            ["error", f"{WHO}: there is no `device_type`", 'Set `device_type = "..."`.'],
        ),
        (
            'device_name = "chip"',
            'device_name = ""',
            ["error", f"{WHO}: `device_name` is empty", 'Set `device_name = "..."`.'],
        ),
        (
            'device_name = "chip"',
            "device_name = 5",
            ["error", f"{WHO}: `device_name` is int, and a text is wanted", 'Set `device_name = "..."`.'],
        ),
        (
            '    ray_device_key = "CHIP"\n',
            "",
            [
                "warning",
                f"{WHO}: `ray_device_key` is left at '': vLLM refuses Ray",
                "Set `ray_device_key`, unless that is what you want.",
            ],
        ),
        (
            '    device_control_env_var = "CHIP_VISIBLE_DEVICES"\n',
            "",
            [
                "warning",
                (
                    f"{WHO}: `device_control_env_var` is left at 'VLLM_DEVICE_CONTROL_ENV_VAR_PLACEHOLDER': no "
                    "variable "
                    "chooses which devices a worker sees"
                ),
                "Set `device_control_env_var`, unless that is what you want.",
            ],
        ),
        (
            "def check_and_update_config(cls, vllm_config)",
            "def check_and_update_configs(cls, vllm_config)",
            [
                "error",
                (
                    f"{WHO}: `check_and_update_config` is vLLM's own, which does nothing, so "
                    "`parallel_config.worker_cls` "
                    "stays unset"
                ),
                "Set `vllm_config.parallel_config.worker_cls` in one of your own.",
            ],
        ),
        (
            "def get_attn_backend_cls(cls, selected_backend, *args, **kwargs)",
            "def get_attn_backend_cls(cls, selected_backend, head_size, dtype)",
            [
                "error",
                (
                    f"{WHO}: `get_attn_backend_cls(cls, selected_backend, head_size, dtype)` does not take what "
                    "vLLM calls it "
                    "with, (selected_backend, attn_selector_config=..., num_heads=...): missing a required argument: "
                    "'head_size'"
                ),
                (
                    "Declare `@classmethod def get_attn_backend_cls(cls, selected_backend, attn_selector_config, "
                    "num_heads=None)`."
                ),
            ],
        ),
        (
            "def set_device(cls, device)",
            "def set_devices(cls, device)",
            [
                "warning",
                f"{WHO}: `set_device` is not there, and vLLM's own raises NotImplementedError",
                "Write it, if vLLM asks it.",
            ],
        ),
        (
            "def manual_seed_all(cls, seed): ...",
            "def manual_seed_all(cls): ...\n    def __init__(self, device): ...",
            [
                "error",
                (
                    f"{WHO}: `manual_seed_all(cls)` does not take what vLLM calls it with, (seed): too many positional "
                    "arguments"
                ),
                "Declare `@classmethod def manual_seed_all(cls, seed)`.",
            ],
        ),
    ],
)
def test_each_fault_is_told_with_its_fix(tmp_path: Path, line: str, instead: str, finding: list[str]) -> None:
    assert line in GOOD
    assert finding in findings(tmp_path, GOOD.replace(line, instead))


def test_it_has_to_be_made_without_arguments(tmp_path: Path) -> None:
    (finding,) = findings(tmp_path, GOOD + "    def __init__(self, device): ...\n")
    assert finding == [
        "error",
        (
            f"{WHO}: `__init__(self, device)` does not take what vLLM makes it with, (): missing a required argument: "
            "'device'"
        ),
        "Let it be made without arguments.",
    ]


def test_a_platform_of_its_own_lacks_the_hooks_of_the_base(tmp_path: Path) -> None:
    source = GOOD.replace("class Chip(Platform)", "class Chip")
    assert findings(tmp_path, source) == [
        [
            "warning",
            f"{WHO}: there is no `{hook}`",
            "Derive from `vllm.platforms.interface.Platform`, which has one.",
        ]
        for hook in (
            "pre_register_and_update",
            "apply_config_platform_defaults",
            "register_triton_kernel_overrides",
            "import_kernels",
            "log_warnings",
        )
    ]


def test_an_instance_is_no_class(tmp_path: Path) -> None:
    bed = VllmBed(tmp_path, PLATFORM).offer("chip", GOOD + "chip = Chip()\n", "chip_mod:chip", version="3.1")
    assert bed.findings("platform", "chip") == [
        [
            "error",
            f"{WHO}: this is no class but an object of it",
            "Let the plugin's function return the dotted name of the class.",
        ]
    ]
