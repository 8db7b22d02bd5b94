from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from typing import Any

import pytest

from vplug_logits import config
from vplug_logits.config import Config, Mode, why_off
from vplug_logits.errors import ConfigError


@pytest.mark.parametrize(
    ("mode", "bits", "rows", "z"),
    [
        ("exact", 8, 64, 0.0),
        ("safe", 2, 512, 5.0),
        ("fast", 1, 512, 0.0),
        ("clusters", 2, 0, 0.0),
        ("dense", 2, 0, 0.0),
    ],
)
def test_a_mode_brings_its_defaults(mode: str, bits: int, rows: int, z: float) -> None:
    made = Config.of(mode)
    assert (made.mode, made.bits, made.rows, made.z) == (Mode(mode), bits, rows, z)
    assert (made.outside, made.build, made.cache, made.artefact, made.backend) == (
        "estimates",
        "auto",
        None,
        None,
        "auto",
    )


def test_what_is_named_stands_over_the_default() -> None:
    made = Config.of(
        "safe", bits=4, rows=9, z=6.0, outside="-inf", build="never", cache="/c", artefact="/a", backend="cpu"
    )
    assert dataclasses.astuple(made) == (Mode.SAFE, 4, 9, 6.0, "-inf", "never", "/c", "/a", "cpu")


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "saef"},
        {"mode": ""},
        {"bits": 3},
        {"bits": True},
        {"bits": 0},
        {"mode": "exact", "bits": 4},
        {"rows": 0},
        {"rows": -1},
        {"rows": 1.5},
        {"rows": True},
        {"z": 0.0},
        {"z": -1.0},
        {"z": float("nan")},
        {"z": float("inf")},
        {"mode": "fast", "z": float("nan")},
        {"outside": "zero"},
        {"build": "later"},
        {"backend": "numpy"},
    ],
)
def test_a_value_that_means_nothing_is_refused_with_its_field(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(reversed(wrong))):
        Config.of(**wrong)


@pytest.mark.parametrize("text", ["0", "off", "false", "no", " OFF ", "False", "nO"])
def test_the_kill_switch_is_read_by_value_and_says_so(text: str) -> None:
    environment = {"VPLUG_LOGITS": text, "VPLUG_LOGITS_BITS": "nonsense"}
    assert Config.from_environment(environment) is None
    assert why_off(environment) == f"VPLUG_LOGITS={text.strip()}"


@pytest.mark.parametrize("text", [None, "", "  ", "1", "on", "TRUE", "yes", "safe", " Safe "])
def test_unset_and_on_mean_safe(text: str | None) -> None:
    environment = {} if text is None else {"VPLUG_LOGITS": text}
    assert Config.from_environment(environment) == Config.of("safe")
    assert why_off(environment) is None


@pytest.mark.parametrize("mode", list(Mode))
def test_each_mode_can_be_asked_for_by_the_environment(mode: Mode) -> None:
    assert Config.from_environment({"VPLUG_LOGITS": mode.upper()}) == Config.of(mode)


def test_every_variable_is_read() -> None:
    environment = {
        "VPLUG_LOGITS": "safe",
        "VPLUG_LOGITS_BUILD": " Wait",
        "VPLUG_LOGITS_BITS": " 4 ",
        "VPLUG_LOGITS_ROWS": "77",
        "VPLUG_LOGITS_Z": "6.5",
        "VPLUG_LOGITS_OUTSIDE": "-INF",
        "VPLUG_LOGITS_CACHE": "~/kept",
        "VPLUG_LOGITS_ARTEFACT": "/some/file",
        "VPLUG_LOGITS_BACKEND": " Triton",
    }
    assert set(environment) == {variable.name for variable in config.VARIABLES}
    made = Config.from_environment(environment)
    cache = os.path.expanduser("~/kept")
    assert made == Config(Mode.SAFE, 4, 77, 6.5, "-inf", "wait", cache, "/some/file", "triton")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("VPLUG_LOGITS", "saef", "safe"),
        ("VPLUG_LOGITS", "2", "clusters"),
        ("VPLUG_LOGITS", "none", "dense"),
        ("VPLUG_LOGITS_BUILD", "nevr", "never"),
        ("VPLUG_LOGITS_BITS", "3", "1, 2, 4, 8"),
        ("VPLUG_LOGITS_BITS", "two", "whole number"),
        ("VPLUG_LOGITS_BITS", "\u0662", "whole number"),
        ("VPLUG_LOGITS_ROWS", "-5", "whole number"),
        ("VPLUG_LOGITS_ROWS", "9" * 5000, "whole number"),
        ("VPLUG_LOGITS_ROWS", "0", "1 and more"),
        ("VPLUG_LOGITS_Z", "wide", "number"),
        ("VPLUG_LOGITS_Z", "nan", "finite"),
        ("VPLUG_LOGITS_OUTSIDE", "inf", "-inf"),
        ("VPLUG_LOGITS_BACKEND", "tritn", "Is 'triton' meant?"),
    ],
)
def test_a_near_miss_names_the_variable_and_what_is_possible(name: str, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Config.from_environment({name: text})
    assert str(raised.value).startswith(f"{name}:") and said in str(raised.value)


def test_clusters_cost_an_eighth_of_the_head() -> None:
    made, vocabulary, width = Config.of("clusters"), 49_152, 576
    clusters = vocabulary // config.CLUSTER_SIZE
    read = clusters * width + made.probes(clusters) * config.CLUSTER_SIZE * width * 2
    assert read / (2 * vocabulary * width) == 0.125
    assert made.needs_clusters and not Config.of("safe").needs_clusters


@pytest.mark.parametrize(
    ("rows", "clusters", "probes"), [(0, 1, 1), (0, 64, 6), (16, 64, 1), (17, 64, 2), (9999, 64, 64)]
)
def test_probes_stay_between_one_and_all(rows: int, clusters: int, probes: int) -> None:
    assert Config.of("clusters", rows=rows).probes(clusters) == probes


def test_the_configuration_needs_the_standard_library_alone() -> None:
    code = "import sys, vplug_logits.config as c; c.Config.from_environment(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=_without())
    assert not {"torch", "numpy", "safetensors", "transformers"} & set(done.stdout.split())


def _without() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VPLUG_LOGITS")}
    return kept | {"PYTHONPATH": os.path.join(os.path.dirname(__file__), os.pardir, "python")}
