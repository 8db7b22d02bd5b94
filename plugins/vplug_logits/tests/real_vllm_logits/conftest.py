"""What the tests in a real vLLM share: SmolLM2, its artefacts, and the plugin as an installed one is found."""

from __future__ import annotations

import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import engines
import pytest
from engines import Started

import lab
import smollm2 as smol
from vplug_logits import cache
from vplug_logits.config import Config

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parents[1] / "python"
FIGURES: list[str] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the figures, whether the tests passed or not."""
    terminalreporter.section("vplug_logits in a real vLLM")
    for line in FIGURES:
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def figures() -> list[str]:
    """Lines to be shown at the end."""
    return FIGURES


@pytest.fixture(scope="session")
def model() -> Path:
    """SmolLM2-135M-Instruct in float32, converted once."""
    return smol.convert(smol.cache_folder())


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """What has to be on the path so that vLLM finds the plugin: where it is installed, else the sources."""
    try:
        return [Path(str(distribution("vplug_logits").locate_file("")))]
    except PackageNotFoundError:
        points = {"vllm.general_plugins": "vplug_logits.plugin:register"}
        return [lab.plant(tmp_path_factory.mktemp("site"), "vplug_logits", points), PACKAGE]


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """VLLM's own cache, so that the model is looked at once."""
    return tmp_path_factory.mktemp("vllm")


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory, site: list[Path], kept: Path, figures: list[str]) -> Started:
    """Starts an engine, asks it all as `engines.start` does, and keeps its figures under a title."""

    def start(
        title: str, model: Path, suites: list[str], modes: list[str], *, tensor_parallel: int = 1, **more: str
    ) -> Any:
        folder = tmp_path_factory.mktemp("engine")
        env = lab.environment(folder, *site, VLLM_CACHE_ROOT=str(kept), **more)
        found = engines.start(folder, model, suites, modes, env, tensor_parallel=tensor_parallel)
        figures.append(engines.line(title, found))
        return found

    return start


@pytest.fixture(scope="session")
def artefacts(model: Path, site: list[Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The artefact of each mode, built as users do, in one cache."""
    folder = tmp_path_factory.mktemp("artefacts")
    env = lab.environment(folder, *site, VPLUG_LOGITS_CACHE=str(folder / "cache"))
    found = {}
    for mode in engines.MODES:
        began = time.monotonic()
        words = ["build", str(model), "--mode", mode, "--dtype", "float32", "--quiet"]
        subprocess.run([sys.executable, "-m", "vplug_logits", *words], env=env, check=True, stdin=subprocess.DEVNULL)
        FIGURES.append(f"vplug-logits build, mode {mode}: {time.monotonic() - began:.0f} s")
        path = cache.find(str(model), Config.of(mode, cache=str(folder / "cache")), dtype="float32")
        assert path is not None
        found[mode] = Path(path)
    return found
