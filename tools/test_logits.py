"""Run the tests of plugins/vplug_logits: in the environment that holds torch, transformers and a vLLM.

The wheel is built first. Without `--vllm` those that need no engine, on the sources and its extension; with it those in
a real vLLM, on the wheel as installed: in a folder of its own, so that the loader's own tests there see nothing of it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import interpreters  # noqa: E402  the path above is where it lies
import logits_extension  # noqa: E402  beside this file
from vllm_environment import NotFetched, environment, install  # noqa: E402

PLUGIN = logits_extension.PLUGIN


def installed(python: Path, folder: Path, wheel: Path) -> Path:
    """The wheel, installed into an empty folder; its metadata is found from PYTHONPATH."""
    shutil.rmtree(folder, ignore_errors=True)
    install(python, "--reinstall", "--target", folder, wheel)
    return folder


def main() -> int:
    """Test; the exit status is that of pytest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environment", type=Path, required=True, help="folder for what is installed")
    parser.add_argument("--vllm", action="store_true", help="the tests in a real vLLM")
    parser.add_argument("pytest", nargs="*", help="arguments for pytest, after --")
    arguments = parser.parse_args()
    try:
        python = environment(arguments.environment)
        wheel = logits_extension.wheel()
        site = installed(python, arguments.environment / "logits", wheel) if arguments.vllm else None
    except NotFetched as reason:
        print(f"SKIPPED, vplug_logits was not tested: {reason}", file=sys.stderr)
        return 1 if os.environ.get("CI") else 0
    if site is None:
        logits_extension.place(wheel)
    tests = PLUGIN / "tests" / "real_vllm_logits" if site else PLUGIN
    threads = {"OMP_NUM_THREADS": "2", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    kept = {key: value for key, value in os.environ.items() if key.startswith("VPLUG_SMOLLM2")}  # what tests are told
    # without an engine the loader's sources are there as well: where it is installed the plugin uses it
    env = interpreters.clean_environment(**threads, **kept, PYTHONPATH=str(site or ROOT / "python"))
    command: list[str | Path] = [python, "-m", "pytest", "-c", tests / "pytest.ini", *arguments.pytest]
    return subprocess.run(command, cwd=tests, check=False, env=env).returncode


if __name__ == "__main__":
    sys.exit(main())
