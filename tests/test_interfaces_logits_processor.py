"""Logits processors: the two interfaces told apart before start, and the group loaded fail-hard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vllm_bed import VllmBed
from vplug_rs.groups import LOGITS_PROCESSOR
from vplug_rs.interfaces import logits_processor

V1 = """
from vllm.v1.sample.logits_processor import LogitsProcessor
class Mask(LogitsProcessor):
    def __init__(self, vllm_config, device, is_pin_memory): ...
    def apply(self, logits): ...
    def is_argmax_invariant(self): ...
    def update_state(self, batch_update): ...
"""
V2 = """
from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcessor
class Mask(LogitsProcessor):
    def apply(self, logits, ctx): ...
"""
DUCK = V1.replace("(LogitsProcessor)", "").replace(
    "    def apply", "    @classmethod\n    def validate_params(cls, sampling_params): ...\n    def apply"
)
BASE1, BASE2 = "vllm.v1.sample.logits_processor", "vllm.v1.worker.gpu.sample.logits_processor"
WHO = "plugin `mask` of acme-mask 5.1 (`mask_mod.Mask`)"


def findings(tmp_path: Path, source: str, runner: str | None = None) -> list[list[str]]:
    bed = VllmBed(tmp_path, LOGITS_PROCESSOR).offer("mask", source, "mask_mod:Mask", version="5.1")
    return bed.findings("logits_processor", "mask", f", runner={runner!r}")


@pytest.mark.parametrize(
    ("source", "runner"), [(V1, None), (V1, "v1"), (V2, None), (V2, "v2"), (DUCK, None), (DUCK, "v1")]
)
def test_a_whole_processor_has_no_findings(tmp_path: Path, source: str, runner: str | None) -> None:
    assert findings(tmp_path, source, runner) == []


def test_an_old_one_is_told_before_the_new_runner_refuses_it(tmp_path: Path) -> None:
    assert findings(tmp_path, V1, "v2") == [
        [
            "error",
            f"{WHO}: it has the interface of the V1 model runner, and the V2 model runner refuses to start with it",
            f"Derive from `{BASE2}.LogitsProcessor`, or run vLLM with VLLM_USE_V2_MODEL_RUNNER=0.",
        ]
    ]


def test_a_new_one_is_told_before_the_old_runner_makes_it(tmp_path: Path) -> None:
    assert findings(tmp_path, V2, "v1") == [
        [
            "error",
            f"{WHO}: it has the interface of the V2 model runner, and the V1 model runner cannot make or call it",
            f"Derive from `{BASE1}.LogitsProcessor`, or run vLLM with VLLM_USE_V2_MODEL_RUNNER=1.",
        ]
    ]


@pytest.mark.parametrize(
    ("source", "finding"),
    [
        (
            V1.replace("def update_state", "def update"),
            [
                "error",
                f"{WHO}: `update_state` is abstract still, so no instance can be made",
                "Declare `def update_state(self, batch_update)`.",
            ],
        ),
        (
            DUCK.replace("def is_argmax_invariant", "def is_invariant"),
            [
                "error",
                f"{WHO}: there is no `is_argmax_invariant`",
                "Declare `def is_argmax_invariant(self)`.",
            ],
        ),
        (
            V1.replace("def apply(self, logits)", "def apply(self, token_ids, logits)"),
            [
                "error",
                (
                    f"{WHO}: `apply(self, token_ids, logits)` does not take what vLLM calls it with, (logits): "
                    "missing a "
                    "required argument: 'logits'"
                ),
                "Declare `def apply(self, logits)`.",
            ],
        ),
        (
            V1.replace("device, is_pin_memory", "device"),
            [
                "error",
                (
                    f"{WHO}: `__init__(self, vllm_config, device)` does not take what vLLM makes it with, "
                    "(vllm_config, "
                    "device, is_pin_memory): too many positional arguments"
                ),
                "Declare `def __init__(self, vllm_config, device, is_pin_memory)`.",
            ],
        ),
        (
            V2 + "    def validate_params(self, sampling_params): ...\n",
            [
                "error",
                f"{WHO}: `validate_params` is no class method, and vLLM calls it on the class",
                "Put `@classmethod` above it.",
            ],
        ),
        (
            V2 + "    def add_request(self, req_idx): ...\n",
            [
                "error",
                (
                    f"{WHO}: `add_request(self, req_idx)` does not take what vLLM calls it with, (req_idx, "
                    "sampling_params): "
                    "too many positional arguments"
                ),
                "Declare `def add_request(self, req_idx, sampling_params)`.",
            ],
        ),
        (
            V2.replace("(LogitsProcessor)", "") + "    def add_request(self, req_idx, sampling_params): ...\n",
            [
                "error",
                (
                    f"{WHO}: it is no subclass of `{BASE2}.LogitsProcessor`, so the V2 model runner refuses to start "
                    "with it"
                ),
                "Derive from that class.",
            ],
        ),
        (
            "class Mask: ...\n",
            [
                "error",
                f"{WHO}: it has neither of vLLM's two interfaces for logits processors",
                f"Derive from `{BASE2}.LogitsProcessor`, or `{BASE1}.LogitsProcessor` for the V1 model runner.",
            ],
        ),
    ],
)
def test_each_fault_is_told_with_its_fix(tmp_path: Path, source: str, finding: list[str]) -> None:
    assert finding in findings(tmp_path, source)


def test_one_class_may_have_both_interfaces() -> None:
    both: dict[str, Any] = {"update_state": None, "add_request": None}
    assert logits_processor.interfaces_of(type("Both", (), both)) == ("v1", "v2")
    assert logits_processor.interfaces_of(type("None_", (), {})) == ()
    with pytest.raises(ValueError, match='runner=\'v3\': known are "v1" and "v2"'):
        logits_processor.check(type("Both", (), both), runner="v3")


LOAD = """
    from vplug_rs.interfaces import logits_processor
    try:
        loaded = logits_processor.load({arguments})
        say([plugin.object.__name__ + " " + plugin.version for plugin in loaded], seen)
    except vplug_rs.PluginLoadError as error:
        say(str(error), error.hint, [failure.name for failure in error.failures])
"""


def load(bed: VllmBed, arguments: str, **environment: str) -> Any:
    (said,) = bed.run(LOAD.format(arguments=arguments), environment=environment)
    return said


def test_all_load_whatever_vllm_plugins_says(tmp_path: Path) -> None:
    bed = VllmBed(tmp_path, LOGITS_PROCESSOR).offer("mask", V1, "mask_mod:Mask")
    assert load(bed, '"v1"', VLLM_PLUGINS="other") == [["Mask 1.0"], []]


def test_two_of_one_name_both_load_as_in_vllm(tmp_path: Path) -> None:
    from sites import build, dist

    bed = VllmBed(tmp_path, LOGITS_PROCESSOR).offer("mask", V1, "mask_mod:Mask")
    build(bed.site, dist("zeta", "9", f"[{LOGITS_PROCESSOR}]\nmask = mask_mod:Mask\n"))
    assert load(bed, '"v1"') == [["Mask 1.0", "Mask 9"], []]


def test_a_policy_applies_and_says_so(tmp_path: Path) -> None:
    bed = VllmBed(tmp_path, LOGITS_PROCESSOR).offer("mask", V1, "mask_mod:Mask").offer("bad", "raise SystemExit")
    assert load(bed, '"v1", policy=Policy(["mask"])') == [
        ["Mask 1.0"],
        [
            (
                "PluginWarning: plugin `bad` of acme-bad 1.0 is kept out (it is not on the allowlist in code); "
                "vLLM has no "
                "allowlist here and would load it"
            )
        ],
    ]


def test_any_failure_stops_with_all_of_them_named(tmp_path: Path) -> None:
    bed = VllmBed(tmp_path, LOGITS_PROCESSOR)
    bed.offer("broken", "import openpyxl", "broken_mod:Mask").offer("fine", V2, "fine_mod:Mask")
    bed.offer("old", V1, "old_mod:Mask").offer("function", "def make(): ...", "function_mod:make")
    text, hint, names = load(bed, '"v2"')
    assert text.splitlines() == [
        "3 of 4 plugins in vllm.logits_processors cannot be used:",
        (
            "plugin `broken` of acme-broken 1.0 failed at import (`broken_mod:Mask` in vllm.logits_processors): "
            "ModuleNotFoundError: No module named 'openpyxl'"
        ),
        (
            "plugin `function` of acme-function 1.0 failed at resolve (`function_mod:make` in vllm.logits_processors): "
            "TypeError: it is a function, and vllm.logits_processors wants the class itself"
        ),
        (
            "plugin `old` of acme-old 1.0 failed at resolve (`old_mod:Mask` in vllm.logits_processors): "
            "TypeError: it has the "
            "interface of the V1 model runner, and the V2 model runner refuses to start with it"
        ),
    ]
    assert hint == "Install what provides `openpyxl`, or reinstall the plugin with the extras that it needs."
    assert names == ["broken", "function", "old"]
