"""The entry point in fresh processes: what it imports, what it says, and that it never raises."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from vplug_logits import config, plugin

PACKAGE = Path(plugin.__file__).resolve().parents[1]
TELL = """
import json, sys
before = set(sys.modules)
from vplug_logits import plugin
plugin.register()
plugin.register()
imported = sorted(set(sys.modules) - before)
state = plugin.state()
print(json.dumps({"imported": imported, "state": state.state, "reason": state.reason, "mode": state.mode}))
"""


def fresh(program: str = TELL, **environment: str) -> Any:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("VPLUG", "_VPLUG"))}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**kept, "PYTHONPATH": str(PACKAGE), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {**json.loads(done.stdout.splitlines()[-1]), "stderr": done.stderr}


@pytest.mark.parametrize("word", ["0", "off", "false", "no", "OFF", " No "])
def test_switched_off_it_imports_nothing_but_itself(word: str) -> None:
    told = fresh(VPLUG_LOGITS=word)
    assert told["state"] == "off"
    assert told["reason"] == f"VPLUG_LOGITS is {word.strip()}"
    ours = {"vplug_logits", "vplug_logits.errors", "vplug_logits.plugin"}
    assert {name for name in told["imported"] if name.startswith("vplug")} == ours
    # not even `typing`: two milliseconds of a process are what it may cost
    others = {name.partition(".")[0] for name in told["imported"]} - {"vplug_logits"}
    assert others <= {"__future__"}
    assert not told["stderr"]


def test_it_knows_the_same_words_for_off_as_the_settings() -> None:
    assert plugin._OFF == config.OFF
    assert plugin._SWITCH == config.LOGITS


@pytest.mark.parametrize(("word", "mode"), [("", "safe"), ("1", "safe"), ("exact", "exact"), ("Fast", "fast")])
def test_switched_on_it_waits_for_the_layer_and_imports_neither_torch_nor_vllm(word: str, mode: str) -> None:
    told = fresh(VPLUG_LOGITS=word)
    assert (told["state"], told["mode"]) == ("waiting", mode)
    assert not {"torch", "vllm", "numpy"} & set(told["imported"])


def test_a_setting_that_means_nothing_is_told_and_does_not_raise() -> None:
    told = fresh(VPLUG_LOGITS="saef")
    assert told["state"] == "refused"
    assert "VPLUG_LOGITS: 'saef'" in told["reason"]
    assert "safe" in told["reason"]
    assert told["stderr"].count("vplug_logits is not active") == 2  # asked twice, refused twice


def test_a_layer_of_another_make_is_left_alone_and_imported_all_the_same(tmp_path: Path) -> None:
    layers = tmp_path / "vllm" / "model_executor" / "layers"
    layers.mkdir(parents=True)
    for folder in (layers, layers.parent, layers.parent.parent):
        (folder / "__init__.py").touch()
    (layers / "logits_processor.py").write_text(
        "class LogitsProcessor:\n    def _apply_head(self, lm_head, hidden_states):\n        return 'theirs'\n", "utf-8"
    )
    program = TELL.replace(
        "state = plugin.state()",
        "from vllm.model_executor.layers.logits_processor import LogitsProcessor\n"
        "assert LogitsProcessor()._apply_head(1, 2) == 'theirs'\n"
        "state = plugin.state()",
    )
    told = fresh(program, PYTHONPATH=f"{PACKAGE}{os.pathsep}{tmp_path}")
    assert told["state"] == "refused"
    assert "_apply_head takes (self, lm_head, hidden_states), and" in told["reason"]
    assert "every head stays dense" in told["stderr"]
