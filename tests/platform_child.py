"""Resolves the platform in this process, and says what that left behind: one JSON object on the descriptor named.

    platform_child.py DESCRIPTOR JOB     JOB is JSON: {"root", "timeout", "strict", "active", "executable"}

Everything that looks around is imported before the first look, so that a difference is the probe's own.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import warnings
from time import perf_counter
from typing import Any

DRIVERS = ("libnvidia-ml", "libcuda", "libamd_smi", "libamdhip64", "libhsa", "libze_", "libtpu")


def look() -> dict[str, Any]:
    """What a probe must leave as it was."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as stream:
        mapped = sorted({line.split()[-1] for line in stream if any(name in line for name in DRIVERS)})
    descriptors = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            descriptors[name] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue  # the listing's own
    return {
        "mapped": mapped,
        "descriptors": descriptors,
        "threads": len(os.listdir("/proc/self/task")),
        "environment": dict(os.environ),
        "path": list(sys.path),
        "finders": [repr(finder) for finder in sys.meta_path],
    }


def children() -> bool:
    """Whether a child is left, running or dead."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def main() -> None:
    """Resolve between two looks."""
    out, job = int(sys.argv[1]), json.loads(sys.argv[2])
    from vplug_rs.errors import VplugError
    from vplug_rs.platforms import resolution

    sys.executable = job.pop("executable", sys.executable)
    warnings.simplefilter("error")
    streams = [tempfile.TemporaryFile() for _ in (1, 2)]  # noqa: SIM115  # to the end of the process
    for number, stream in zip((1, 2), streams, strict=True):
        os.dup2(stream.fileno(), number)
    modules, before = set(sys.modules), look()
    began = perf_counter()
    said: dict[str, Any] = {}
    try:
        found = resolution.resolve(**job)
    except VplugError as error:
        said = {"error": type(error).__name__, "text": str(error), "hint": error.hint, "exit": error.exit_status}
    else:
        said = {"resolution": found.as_dict(), "exit": resolution.exit_status(found)}
    said["seconds"] = perf_counter() - began
    after = look()
    pid = os.fork()
    if not pid:
        # a child that can run, start a thread and import
        threading.Thread(target=lambda: None).start()
        os._exit(0)
    said["forked"] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    said["changed"] = [name for name in before if before[name] != after[name]]
    said["before"], said["after"] = before, after
    gained = {name.partition(".")[0] for name in set(sys.modules) - modules}
    said["foreign"] = sorted(gained - set(sys.stdlib_module_names) - {"vplug_rs"})
    said["children"], said["pid"] = children(), os.getpid()
    said["printed"] = [os.fstat(stream.fileno()).st_size for stream in streams]
    with os.fdopen(out, "w", encoding="utf-8") as answer:
        json.dump(said, answer)


if __name__ == "__main__":
    main()
