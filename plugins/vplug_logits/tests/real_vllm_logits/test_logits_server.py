"""The OpenAI server without an artefact: dense at once, built by a child, switched, sabotaged, stopped."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import api_server
import lab
from api_server import Server

PROMPT = "The three most common programming languages are"
PATIENCE = 200  # seconds for the child to build beside the server


@dataclass
class Story:
    """What was seen.

    Attributes:
        texts: What the server said in each phase.
        metrics: What /metrics had after it.
        log: The server's.
        artefacts: Where the child writes.
        figures: The folder of figures while it ran.
        built: Seconds until it was active.
    """

    artefacts: Path
    texts: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, dict[str, float]] = field(default_factory=dict)
    log: str = ""
    figures: list[Path] = field(default_factory=list)
    built: float = 0.0


def said(server: Server, tokens: int = 24) -> str:
    body = {"model": "smol", "prompt": PROMPT, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
    text: str = json.loads(server.ask("/v1/completions", body))["choices"][0]["text"]
    return text


def shown(server: Server) -> dict[str, float]:
    """Our metrics: the name, with the reason where there is one, and the value."""
    found = {}
    for line in server.ask("/metrics").splitlines():
        match = re.fullmatch(r"vplug_logits_(\w+)\{(.*)\} (\S+)", line)
        if match is not None:
            name, labels, value = match.groups()
            reason = re.search(r'reason="([^"]*)"', labels)
            found[name if reason is None or name == "active" else f"{name} {reason[1]}"] = float(value)
    return found


@pytest.fixture(scope="module")
def story(
    tmp_path_factory: pytest.TempPathFactory, model: Path, site: list[Path], kept: Path, figures: list[str]
) -> Story:
    folder = tmp_path_factory.mktemp("server")
    temporary, sabotage = folder / "tmp", folder / "sabotage"
    temporary.mkdir()
    here = Path(__file__).resolve().parent
    saboteur = lab.plant(folder / "site", "saboteur", {"vllm.general_plugins": "saboteur:register"})
    more = {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "1",
        "VLLM_CACHE_ROOT": str(kept),
        "VPLUG_LOGITS_CACHE": str(folder / "artefacts"),
        "SABOTAGE": str(sabotage),
        "TMPDIR": str(temporary),
    }
    env = lab.environment(folder, *site, saboteur, here / "plugins", **more)
    server = Server(folder, lambda port: api_server.words(model, port, "--served-model-name", "smol"), env)
    found = Story(folder / "artefacts")

    def phase(name: str) -> None:
        found.texts[name] = said(server)
        found.metrics[name] = shown(server)

    try:
        phase("dense")
        found.figures = list(temporary.glob("vplug_logits-*"))
        began = time.monotonic()
        while not shown(server).get("active"):
            assert time.monotonic() - began < PATIENCE, server.log
            said(server, 1)
            time.sleep(1)
        found.built = time.monotonic() - began
        phase("active")
        sabotage.touch()
        phase("sabotaged")
        sabotage.unlink()
        phase("mended")
    finally:
        server.stop()
        found.log = server.log
    figures.append(f"server: active {found.built:.0f} s after its first answer; {found.metrics['mended']}")
    return found


def test_it_answers_densely_at_once_and_counts_that(story: Story) -> None:
    metrics = story.metrics["dense"]
    assert metrics["active"] == 0
    assert metrics["rows_total"] == metrics["fallback_rows_total building"] == 24
    assert metrics["rescored_rows_total"] == 0


def test_it_switches_while_it_runs_and_says_the_same(story: Story) -> None:
    metrics = story.metrics["active"]
    assert metrics["active"] == 1
    assert metrics["rescored_rows_total"] > 24 * 100
    dense = story.metrics["active"]["fallback_rows_total building"]
    assert metrics["rows_total"] >= dense + 24
    assert story.texts["active"] == story.texts["dense"]
    assert "is building: there is no sketch of this model yet" in story.log
    assert story.log.count("is active: mode safe") == 1


def test_a_head_that_fails_is_answered_for_and_the_server_lives(story: Story) -> None:
    before, during, after = (story.metrics[name] for name in ("active", "sabotaged", "mended"))
    assert story.texts["sabotaged"] == story.texts["mended"] == story.texts["dense"]
    assert during["errors_total"] == during["fallback_rows_total error"] == 8
    assert before["errors_total"] == 0
    # eight in a row are enough: it is not tried again
    assert after["errors_total"] == 8
    assert after["active"] == 0
    assert story.log.count("this head was sabotaged") == 2  # the first one, and why it was given up


def test_the_figures_are_private_and_gone_with_the_server(story: Story) -> None:
    assert len(story.figures) == 1
    assert not story.figures[0].exists()


def test_the_artefact_is_for_this_user_alone(story: Story) -> None:
    (path,) = story.artefacts.glob("*.safetensors")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_every_process_found_the_plugin_once(story: Story) -> None:
    assert not re.search(r"Failed to load plugin", story.log)
    assert "Unknown vLLM environment variable" not in story.log
