"""Asks the CUDA driver how many devices it has: a second opinion for WSL, where NVML may know less.

This initialises CUDA, which a process that is to fork must never do: so it happens here.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vplug_rs.platforms.children.stage import Stage

LIBRARY = "libcuda.so.1"


def main(stage: Stage, _words: list[str]) -> None:
    """Make both calls."""
    from ctypes import CDLL, byref, c_int, c_uint

    # the driver would count what it leaves; who reads the answer looks for it in the list of all, as in NVML's
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    stage.say(call="dlopen", backend="libcuda")
    try:
        library = CDLL(LIBRARY)
        init, get_count = library.cuInit, library.cuDeviceGetCount
    except (OSError, AttributeError) as error:
        return stage.say(unusable=str(error))
    stage.say(call="cuInit")
    if code := init(c_uint(0)):
        return stage.say(call="cuInit", error=code)
    stage.say(call="cuDeviceGetCount")
    count = c_int(0)
    if code := get_count(byref(count)):
        return stage.say(call="cuDeviceGetCount", error=code)
    return stage.say(count=count.value)
