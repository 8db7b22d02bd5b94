"""`vplug-logits inspect FILE`: what an artefact says about itself."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from vplug_logits.sketch import Sketch

HELP = "say what an artefact was built of and what it costs; every number of it is checked"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of this command."""
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Read and say."""
    from vplug_logits import artefact

    read = artefact.read(arguments.file)
    said = asdict(read.metadata)
    dense = 2 * read.metadata.vocabulary * read.metadata.width
    said |= {
        "clusters": 0 if read.clusters is None else read.clusters.members.shape[0],
        "states": 0 if read.states is None else read.states.shape[0],
        "file_bytes": os.path.getsize(arguments.file),
        "sketch_share": round(_sketch_bytes(read.sketch) / dense, 4),
    }
    if arguments.json:
        print(json.dumps(said, indent=2))  # noqa: T201  # the result
        return 0
    meaning = {"sketch_share": "of the bytes of the head in bfloat16", "positions": "states the metric was made of"}
    for name, value in said.items():
        print(f"{name:<13} {value}" + (f"   {meaning[name]}" if name in meaning else ""))  # noqa: T201  # the result
    return 0


def _sketch_bytes(sketch: Sketch) -> int:
    norm = 0 if sketch.norm is None else sketch.norm.nbytes
    parts = (sketch.codes, sketch.scale, sketch.residual, sketch.transform, sketch.mean)
    return norm + sum(part.nbytes for part in parts)
