"""`vplug-logits bench`."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vplug_logits.cli.places import writable
from vplug_logits.config import AUTO, Config
from vplug_logits.errors import ConfigError
from vplug_logits.progress import on_terminal

if TYPE_CHECKING:
    from collections.abc import Callable

    from vplug_logits.benchmark.beds import Bed
    from vplug_logits.benchmark.timing import Plan
    from vplug_logits.config import BackendName
    from vplug_logits.progress import Progress

HELP = "time every mode beside torch's heads, int8, int4 and plain reading; or whole decode steps"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parts = parser.add_mutually_exclusive_group()
    parts.add_argument("--decode", action="store_true", help="whole decode steps in transformers instead of heads")
    parts.add_argument("--vllm", action="store_true", help="whole decode steps of --model in vLLM instead of heads")
    parts.add_argument("--gpu", action="store_true", help="heads by the Triton kernels on a GPU, instead of a CPU")
    parser.add_argument(
        "--model", metavar="MODEL", help="a folder or a hub id in the local cache: its own head instead of a random one"
    )
    parser.add_argument(
        "--shape", nargs="+", type=_shape, metavar="VxD", help="heads, such as 49152x576; three real shapes by default"
    )
    parser.add_argument("--batch", nargs="+", type=_count, metavar="N", help="sizes of batches (1 4 8 32)")
    parser.add_argument("--threads", nargs="+", type=_count, metavar="N", help="numbers of threads (1 2)")
    parser.add_argument("--rounds", type=_count, metavar="N", help="calls of each candidate, or steps")
    parser.add_argument("--quick", action="store_true", help="few rounds: a look, not a figure")
    parser.add_argument("--warm", action="store_true", help="leave caches as they are, instead of sweeping them")
    parser.add_argument(
        "--clusters", action="store_true", help="mode clusters of --model too; its first build takes a minute or more"
    )
    parser.add_argument("--json", metavar="FILE", help="add the results to this file, too")
    parser.add_argument("--out", metavar="DIR", help="write the tables of all results, and a plot of those of heads")
    parser.add_argument("--cache", metavar="DIR", help="where sketches are kept (the user's cache)")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Measure; the tables go to stdout.

    Raises:
        LogitsError: What cannot be done, before anything slow where that can be known.
    """
    writable("json", arguments.json)
    writable("out", arguments.out, folder=True)
    heads = not (arguments.decode or arguments.vllm or arguments.gpu)
    if arguments.vllm and arguments.model is None:
        raise ConfigError("vllm: --model says which model vLLM is to run.")
    if arguments.clusters and arguments.model is None:
        raise ConfigError("clusters: --model says whose rows they are; random rows have none.")
    backend = _backend()
    if arguments.out:
        from vplug_logits.evaluation import plots as needed

        needed.require("--out")
    plan = _plan(arguments, heads=heads)
    from vplug_logits.benchmark import report
    from vplug_logits.benchmark.running import document

    _warn(quiet=arguments.quiet)
    progress = on_terminal(quiet=arguments.quiet)
    measured = document(_earlier(arguments.json))
    measured |= _part(arguments, plan, backend, progress)
    text = report.markdown(measured, plot=arguments.out is not None)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(measured, indent=1, allow_nan=False) + "\n", "utf-8")
    if arguments.out:
        Path(arguments.out).mkdir(exist_ok=True)
        (Path(arguments.out) / "bench.md").write_text(text, "utf-8")
        if "heads" in measured:
            from vplug_logits.benchmark import plots

            plots.write(measured, arguments.out)
    sys.stdout.write(text)
    return 0


def _earlier(path: str | None) -> Any:
    """What a file of results holds, or None."""
    if path is None or not Path(path).exists():
        return None
    try:
        return json.loads(Path(path).read_text("utf-8"))
    except ValueError as error:
        raise ConfigError(f"json: {path} is there and holds no results: {error}.") from error


def _part(arguments: argparse.Namespace, plan: Plan, backend: BackendName, progress: Progress) -> dict[str, Any]:
    if arguments.decode:
        from vplug_logits.benchmark import decode

        return {"decode": decode.run(arguments.model, plan, backend=backend, cache=arguments.cache, progress=progress)}
    if arguments.vllm:
        from vplug_logits.benchmark import vllm_child

        return {"vllm": vllm_child.run(arguments.model, plan, cache=arguments.cache, progress=progress)}
    if arguments.gpu:
        from vplug_logits.benchmark import on_gpu

        return {"gpu": on_gpu.run(_beds(arguments, progress), plan, progress=progress)}
    from vplug_logits.benchmark.running import heads

    found = heads(_beds(arguments, progress), plan, backend=backend, clusters=arguments.clusters, progress=progress)
    return {"heads": found}


def _backend() -> BackendName:
    """The backend that the settings name; what is measured is never another one."""
    config = Config.from_environment()
    return AUTO if config is None else config.backend


def _beds(arguments: argparse.Namespace, progress: Progress) -> list[Callable[[], Bed]]:
    """A model's head, and random ones of all other shapes that are asked for."""
    from vplug_logits.benchmark import beds

    shapes = list(arguments.shape or beds.SHAPES)
    found: list[Callable[[], Bed]] = []
    if arguments.model is not None:
        model = beds.of_model(arguments.model, cache=arguments.cache, progress=progress)
        mine = (model.vocabulary, model.width)
        if arguments.shape is None or mine in shapes:
            found.append(lambda: model)
        shapes = [shape for shape in shapes if shape != mine]
    return found + [partial(beds.random, *shape, cache=arguments.cache, progress=progress) for shape in shapes]


def _plan(arguments: argparse.Namespace, *, heads: bool) -> Plan:
    from vplug_logits.benchmark import timing

    usual = (timing.QUICK_ROUNDS if arguments.quick else timing.ROUNDS) * (1 if heads else timing.STEPS_A_ROUND)
    processors = os.cpu_count() or 1
    threads = tuple(arguments.threads or [number for number in timing.THREADS if number <= processors])
    return timing.Plan(
        batches=tuple(arguments.batch or timing.BATCHES),
        threads=threads if heads else (1,),
        rounds=arguments.rounds or usual,
        sweep=not arguments.warm,
    )


def _warn(*, quiet: bool) -> None:
    """Say that others run, since that makes figures worse than the machine is."""
    from vplug_logits.benchmark.quiet import Watch

    with Watch() as watch:
        time.sleep(0.5)
    if watch.noisy and not quiet:
        sys.stderr.write(
            f"warning: others use {watch.others:.1f} processors; wait for a quiet machine, or read ratios.\n"
        )


def _shape(text: str) -> tuple[int, int]:
    rows, _, width = text.lower().partition("x")
    if not (rows.isdigit() and width.isdigit() and int(rows) and int(width)):
        raise argparse.ArgumentTypeError(f"{text!r} is no shape; possible: rows x width, such as 49152x576.")
    return int(rows), int(width)


def _count(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number; possible: 1 and more.")
    return int(text)
