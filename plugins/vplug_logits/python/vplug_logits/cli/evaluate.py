"""`vplug-logits evaluate MODEL`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from vplug_logits.cli.places import writable
from vplug_logits.config import SEED, Mode
from vplug_logits.errors import ConfigError
from vplug_logits.evaluation.texts import DOMAINS, read, shipped, tokenizer
from vplug_logits.progress import on_terminal

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

STATES, QUICK_STATES = 20_000, 2_000
HELP = "count misses, distances and bytes of every mode and of plain baselines, by domain"


def add_arguments(parser: ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("model", metavar="MODEL", help="a folder or a hub id that is in the local cache")
    modes = [str(mode) for mode in Mode]
    parser.add_argument(
        "--modes", nargs="+", metavar="MODE", choices=modes, default=modes,
        help="which modes: %(choices)s; all by default",
    )  # fmt: skip
    parser.add_argument("--states", type=int, metavar="N", help=f"distinct hidden states (default {STATES:,})")
    parser.add_argument(
        "--domains", nargs="+", metavar="DOMAIN", choices=list(DOMAINS), default=list(DOMAINS),
        help="which of the texts that come with the package: %(choices)s; all by default",
    )  # fmt: skip
    parser.add_argument(
        "--texts", nargs="+", metavar="FILE", help="your own texts instead: UTF-8, one domain for each file"
    )
    parser.add_argument("--json", metavar="FILE", help="write the results here, too")
    parser.add_argument("--plots", metavar="DIR", help="draw misses against bytes, and by domain (matplotlib)")
    parser.add_argument(
        "--dtype", choices=("float32", "bfloat16", "float16"), default="float32", help="of the model (default float32)"
    )
    parser.add_argument(
        "--seed", type=int, default=SEED, help="of states, calibration and builds (default %(default)s)"
    )
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_STATES:,} states, no curves in the plots")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")


def run(arguments: Namespace) -> int:
    """Evaluate; the tables go to stdout.

    Raises:
        LogitsError: What cannot be done, before anything slow where that can be known.
    """
    texts = [read(path) for path in arguments.texts] if arguments.texts else shipped(arguments.domains)
    names = [text.domain for text in texts]
    if len(set(names)) < len(names):
        raise ConfigError("texts: two files have the same name without its ending; it names their domain.")
    states = (QUICK_STATES if arguments.quick else STATES) if arguments.states is None else arguments.states
    if states < len(texts):
        raise ConfigError(f"states: {states} are too few for {len(texts)} domains.")
    writable("json", arguments.json)
    writable("plots", arguments.plots, folder=True)
    from vplug_logits.evaluation import plots

    if arguments.plots:
        plots.require()
    from vplug_logits.build import load
    from vplug_logits.evaluation.report import tables
    from vplug_logits.evaluation.running import Wanted, run

    began = time.monotonic()
    model = load(arguments.model, dtype=arguments.dtype)
    wanted = Wanted(tuple(Mode(mode) for mode in arguments.modes), states, arguments.seed, arguments.quick)
    name = Path(arguments.model).name if Path(arguments.model).is_dir() else arguments.model
    progress = on_terminal(quiet=arguments.quiet)
    document = run(model, tokenizer(arguments.model), texts, wanted, name=name, progress=progress)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", "utf-8")
    if arguments.plots:
        plots.write(document, arguments.plots)
    sys.stdout.write(tables(document))
    if not arguments.quiet:
        sys.stderr.write(f"{time.monotonic() - began:,.0f} s\n")
    return 0
