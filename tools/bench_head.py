"""Measure the heads of plugins/vplug_logits, and write its docs/bench.md, bench.json and bench.svg, and README's part.

SmolLM2's own head and two random ones, then whole decode steps in transformers and in vLLM, each in a process of its
own. README's table and plot stand between `<!-- bench:start -->` and `<!-- bench:end -->`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLUGIN = ROOT / "plugins" / "vplug_logits"
sys.path[:0] = [str(ROOT / "tests"), str(PLUGIN / "python")]  # the tables need no torch

import interpreters  # noqa: E402  the paths above are where these lie
from vllm_environment import NotFetched, environment  # noqa: E402

START, END = "<!-- bench:start -->", "<!-- bench:end -->"
SEEN = "![time against batch, and the distance from reading alone](docs/bench.svg)"
MORE = "Each path, one and two threads, whole decode steps, and how it was measured: [docs/bench.md](docs/bench.md)."
CACHE = ROOT / ".cache" / "logits-bench"  # sketches, which take minutes to build
CONVERT = "import smollm2; print(smollm2.convert(smollm2.cache_folder()))"
THREADS = 2


def settings() -> dict[str, str]:
    """The environment of what is measured: threads that wait leave the processors to others."""
    return interpreters.clean_environment(
        HF_HUB_OFFLINE="1",
        OMP_NUM_THREADS=str(min(THREADS, os.cpu_count() or 1)),
        OMP_WAIT_POLICY="passive",
        TOKENIZERS_PARALLELISM="false",
        VLLM_CACHE_ROOT=str(CACHE / "vllm"),
        PYTHONPATH=os.pathsep.join(map(str, (PLUGIN / "python", PLUGIN / "tests"))),
    )


def measure(python: Path, docs: Path, more: list[str], parts: list[str]) -> None:
    """Run the parts one after the other, into the files of a folder."""
    (CACHE / "sketches").mkdir(mode=0o700, parents=True, exist_ok=True)
    env = settings()
    converted = subprocess.run([python, "-c", CONVERT], check=True, env=env, stdout=subprocess.PIPE, text=True)
    common = ["--model", converted.stdout.splitlines()[-1], "--cache", str(CACHE / "sketches")]
    files = ["--json", str(docs / "bench.json"), "--out", str(docs)]
    options: dict[str, list[str]] = {"heads": ["--clusters"], "decode": ["--decode"], "vllm": ["--vllm"]}
    for part in parts:
        subprocess.run(
            [python, "-m", "vplug_logits", "bench", *options[part], *common, *files, *more], check=True, env=env
        )


def fill(page: Path, table: str) -> None:
    """Put a table between the markers of a page.

    Raises:
        ValueError: The page has no such place.
    """
    before, found, rest = page.read_text("utf-8").partition(START)
    _, closed, after = rest.partition(END)
    if not (found and closed):
        raise ValueError(f"{page} has no place for the table: put {START} and {END} on lines of their own")
    page.write_text(f"{before}{START}\n{table}\n{END}{after}", "utf-8")


def main() -> int:
    """Measure, then write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", type=Path, required=True, help="folder of what is installed")
    parser.add_argument("--parts", nargs="+", choices=("heads", "decode", "vllm"), default=["heads", "decode", "vllm"])
    parser.add_argument("--out", type=Path, help="write into this folder, and leave the documents alone")
    parser.add_argument("bench", nargs="*", help="arguments for `vplug-logits bench`, after --")
    arguments = parser.parse_args()
    docs = arguments.out or PLUGIN / "docs"
    if arguments.out is None and arguments.parts == ["heads", "decode", "vllm"]:
        (docs / "bench.json").unlink(missing_ok=True)  # all of it is measured anew
    docs.mkdir(parents=True, exist_ok=True)
    try:
        python = environment(arguments.environment)
    except NotFetched as reason:
        print(f"nothing was measured: {reason}", file=sys.stderr)
        return 1
    measure(python, docs, arguments.bench, arguments.parts)
    if arguments.out is None:
        (docs / "bench.png").unlink(missing_ok=True)  # the page shows the other one
        report = import_module("vplug_logits.benchmark.report")
        table = report.short(json.loads((docs / "bench.json").read_text("utf-8")))
        fill(PLUGIN / "README.md", f"{table}\n\n{SEEN}\n\n{MORE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
