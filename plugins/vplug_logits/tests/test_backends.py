"""Which backend serves, and what is said of those that do not."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from heads import head, hidden, sketch_of
from vplug_logits import BackendError, Config, ConfigError, Head
from vplug_logits.kernels import choose, registry
from vplug_logits.kernels.registry import chosen

SOURCES = Path(__file__).resolve().parent.parent / "python"
CPU, CUDA, OTHER = torch.device("cpu"), torch.device("cuda"), torch.device("meta")


def without(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    """As where these modules were not installed."""
    for name in modules:
        monkeypatch.setitem(sys.modules, name, None)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where nothing is compiled."""
    without(monkeypatch, "vplug_logits.kernels.cpu", "vplug_logits.kernels.triton_backend")


@pytest.mark.parametrize(("device", "better"), [(CPU, ["cpu"]), (CUDA, ["triton"]), (OTHER, [])])
def test_torch_serves_where_nothing_better_can_and_it_is_said_why(
    alone: None, device: torch.device, better: list[str]
) -> None:
    choice = chosen(device)
    assert choice.backend.name == "torch"
    assert list(choice.passed_over) == better
    assert all("cannot be imported" in why and "kernels" in why for why in choice.passed_over.values())


@pytest.mark.skipif(importlib.util.find_spec("vplug_logits._kernels") is None, reason="the extension is not built here")
def test_the_compiled_kernels_serve_a_cpu_where_they_are_there() -> None:
    choice = chosen(CPU)
    assert (choice.backend.name, choice.passed_over) == ("cpu", {})


@pytest.mark.parametrize("wanted", ["torch", " Torch "])
def test_the_one_that_is_named_serves(wanted: str) -> None:
    choice = chosen(CPU, wanted)
    assert (choice.backend.name, choice.passed_over) == ("torch", {})
    assert choose(CPU, wanted).name == "torch"


def test_a_name_that_is_unknown_is_told_with_those_that_are_known() -> None:
    with pytest.raises(ConfigError, match=r"possible: auto, cpu, triton, torch\. Is 'triton' meant\?"):
        chosen(CPU, "tritton")


@pytest.mark.parametrize("name", ["cpu", "triton"])
def test_the_one_that_is_named_is_never_replaced(alone: None, name: str) -> None:
    with pytest.raises(BackendError) as raised:
        chosen(CPU if name == "cpu" else CUDA, name)
    assert raised.value.name == name and "cannot be imported" in raised.value.reason
    assert raised.value.next_step and str(raised.value).startswith(f"backend {name}: ")


def test_a_backend_says_that_a_device_is_not_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    for name, device in (("cpu", CUDA), ("triton", CPU)):
        with pytest.raises(BackendError, match=f"serves no device of type {device.type}"):
            chosen(device, name)


def test_each_name_of_the_settings_has_a_backend() -> None:
    from typing import get_args

    from vplug_logits.config import AUTO, BackendName

    assert {AUTO, *registry._MAKERS} == set(get_args(BackendName))
    assert {name for names in registry._ORDER.values() for name in names} == set(registry._MAKERS)
    assert all(names[-1] == "torch" for names in registry._ORDER.values())


def made(**more: Any) -> Head:
    weight = head(300, 16)
    config = Config.of(more.pop("mode", "safe"), rows=8, backend=more.pop("name", "auto"))
    sketch = sketch_of(weight, hidden(50, 16), config.bits)
    return Head(weight, config, sketch=sketch, **more)


def test_a_head_says_what_computes_and_why_nothing_better(alone: None) -> None:
    ours = made()
    assert ours.backend == "torch" and "cannot be imported" in ours.passed_over["cpu"]
    named = made(name="torch")
    assert (named.backend, named.passed_over) == ("torch", {})
    assert made(mode="dense").backend == ""


def test_a_backend_that_is_handed_over_stands_over_the_settings(alone: None) -> None:
    assert made(name="cpu", backend=choose(CPU, "torch")).backend == "torch"


def test_a_head_is_not_made_with_another_backend_than_the_one_that_is_named(alone: None) -> None:
    with pytest.raises(BackendError, match="backend cpu"):
        made(name="cpu")


def test_to_choose_imports_no_backend_that_is_not_asked_for() -> None:
    program = (
        "import sys, torch; from vplug_logits.kernels import choose; choose(torch.device('cpu'), 'torch')\n"
        "print([name for name in sys.modules if name.startswith(('vplug_logits._kernels', 'triton'))])"
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VPLUG")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**kept, "PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"
