"""Runs `vplug` on many search paths in one process: jobs on stdin, one JSON line for each command on stdout.

A command that hangs ends the process, with its stack on stderr.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import io
import json
import os
import pathlib
import sys
import time

from vplug_rs.cli import main

LONGEST = 30  # seconds for one command; the quickest ones take milliseconds


def command(words: list[str]) -> dict[str, object]:
    out, err = io.StringIO(), io.StringIO()
    faulthandler.dump_traceback_later(LONGEST, exit=True)
    start = time.monotonic()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(words)
    faulthandler.cancel_dump_traceback_later()
    return {
        "words": words,
        "status": status,
        "out": out.getvalue(),
        "err": err.getvalue(),
        "seconds": time.monotonic() - start,
    }


if __name__ == "__main__":
    if "--obey-modes" in sys.argv:
        importlib.import_module("serve").obey_modes()  # what the tests of the library use
    base = list(sys.path)
    for line in sys.stdin:
        job = json.loads(line)
        os.chdir(job["here"])
        sys.path[:] = [*(eval(entry, {"Path": pathlib.Path}) for entry in job["path"]), *base]
        for words in job["commands"]:
            print(json.dumps({"case": job["case"], **command(words)}), flush=True)
