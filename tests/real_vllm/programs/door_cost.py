"""What our two entry points cost a process that does not want us: prints the milliseconds of each.

As a host does it: found by importlib.metadata, loaded, called. What the host has imported already is no cost of ours.
"""

from __future__ import annotations

import os
import sys
import time
from importlib.metadata import entry_points

points = [
    point
    for group in ("torch.backends", "vllm.platform_plugins")
    for point in entry_points(group=group)
    if point.name == "vplug_rs"
]
for point in points:
    began = time.perf_counter()
    assert point.load()() is None
    print((time.perf_counter() - began) * 1e3)
assert len(points) == 2
assert os.environ.get("VPLUG_VLLM", "") in {"", "0"}
assert not {"vplug_rs.vllm.activation", "vplug_rs.loader", "vplug_rs.env"} & set(sys.modules)
