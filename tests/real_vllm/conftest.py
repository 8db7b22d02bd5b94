"""What the tests in a real vLLM share: a model, our plugins, and the figures that are shown at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

import figures
import lab


def pytest_addoption(parser: pytest.Parser) -> None:
    """The sources of vLLM are fetched by whoever made the environment."""
    parser.addoption("--vllm-sources", type=Path, help="the source distribution of the vLLM that is installed")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the figures, whether the tests passed or not."""
    for title, lines in figures.SECTIONS.items():
        terminalreporter.section(title)
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random model."""
    folder = tmp_path_factory.mktemp("model")
    done = lab.run(folder, lab.program("make_model", folder / "llama"), lab.environment(folder))
    assert done.status == 0, done.log
    return folder / "llama"


@pytest.fixture(scope="session")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a distribution that has a plugin in each of the six groups."""
    return lab.plant(tmp_path_factory.mktemp("probe"), "probe", lab.PROBE)


@pytest.fixture(scope="session")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a distribution whose general plugin fails."""
    return lab.plant(tmp_path_factory.mktemp("broken"), "broken", lab.BROKEN)
