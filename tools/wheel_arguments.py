"""The command line of what tests the built wheel: where its environments are, and which wheel is meant."""

from __future__ import annotations

import argparse
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def parse(description: str | None, environments: str, **switches: str) -> tuple[argparse.Namespace, Path]:
    """The arguments, and the one wheel; ends the program if there is another number of them.

    Args:
        description: What the program does.
        environments: The option that names its folder.
        switches: Further options without a value, and what each is for.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(environments, type=Path, required=True, help="folder for what is installed")
    parser.add_argument("--wheels", type=Path, default=ROOT / "dist", help="folder with the one wheel to test")
    for name, purpose in switches.items():
        parser.add_argument(f"--{name}", action="store_true", help=purpose)
    parser.add_argument("pytest", nargs="*", help="arguments for pytest, after --")
    arguments = parser.parse_args()
    wheels = sorted(arguments.wheels.glob("*.whl"))
    if len(wheels) != 1:
        parser.error(f"{arguments.wheels} holds {len(wheels)} wheels, not one: run `make wheel`")
    return arguments, wheels[0]
