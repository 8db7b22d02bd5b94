"""Fetch the source distribution of a release: fetch_sdist.py NAME==VERSION FILE.

`pip download` would build it first, to learn what it needs. This looks where pip looks, with its settings and its
connection, and writes the file after its hash was checked.
"""

from __future__ import annotations

import hashlib
import sys
from typing import Any

from pip._internal.commands import create_command
from pip._vendor.packaging.requirements import Requirement


def main(wanted: str, target: str) -> None:
    """Find and fetch it."""
    requirement = Requirement(wanted)
    command: Any = create_command("download")
    options, _ = command.parse_args(["--no-deps", "--no-binary", requirement.name, wanted])
    with command.main_context():
        session = command.get_default_session(options)
        finder = command._build_package_finder(options, session)  # noqa: SLF001  # no part of pip is public
        best = finder.find_best_candidate(requirement.name, requirement.specifier).best_candidate
        if best is None:
            sys.exit(f"no package index has a source distribution of {wanted}")
        answer = session.get(best.link.url_without_fragment, headers={"Accept-Encoding": "identity"})
        answer.raise_for_status()
        if best.link.hash_name and hashlib.new(best.link.hash_name, answer.content).hexdigest() != best.link.hash:
            sys.exit(f"{best.link.filename} is not what the index says it is")
    with open(target, "wb") as stream:
        stream.write(answer.content)


if __name__ == "__main__":
    main(*sys.argv[1:])
