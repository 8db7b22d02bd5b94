"""`vplug-logits check FILE MODEL`: whether an artefact was built of this model's head."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

HELP = "say whether an artefact was built of this model's head, row by row"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of this command."""
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("model", metavar="MODEL", help="a folder, or the id of a model in the local hub cache")
    parser.add_argument("--revision", help="of a hub id")


def run(arguments: argparse.Namespace) -> int:
    """Read both and compare; a difference is an error."""
    from vplug_logits import artefact, build

    read = artefact.read(arguments.file)
    model = build.load(arguments.model, dtype=read.metadata.dtype, revision=arguments.revision)
    weight = build.head_weight(model)
    artefact.check(read, weight)
    print(f"{arguments.file}: of this head, {weight.shape[0]} rows equal")  # noqa: T201  # the result
    return 0
