"""The candidates of the start-up benchmark: how each is imported and asked for one group.

In every call G stands for the group's name. Each gives a collection, but pluggy
can only count what it loaded.
"""

from __future__ import annotations

from dataclasses import dataclass, field

PLAIN_PYTHON = """
def eps(group):
    import os, sys
    seen, out, g = set(), [], group.encode()
    for p in sys.path:
        try:
            names = os.listdir(p or ".")
        except OSError:
            continue
        for n in names:
            if n.endswith((".dist-info", ".egg-info")):
                key = n.rpartition(".")[0].partition("-")[0].lower().replace("-", "_").replace(".", "_")
                if key in seen:
                    continue
                seen.add(key)
                try:
                    fd = os.open(p + "/" + n + "/entry_points.txt", 0)
                except OSError:
                    continue
                b = os.read(fd, 1 << 20)
                os.close(fd)
                if g in b:
                    on = False
                    for l in b.decode().splitlines():
                        l = l.strip()
                        if l.startswith("["):
                            on = l[1:-1] == group
                        elif on and "=" in l and l[0] != "#":
                            a, _, v = l.partition("=")
                            out.append((a.strip(), v.strip(), group))
    return out
"""


@dataclass(frozen=True)
class Candidate:
    """One way of asking for a group's entry points.

    Attributes:
        title: the name in tables.
        setup: the import (or definition).
        call: the expression that is timed.
        environment: further variables; `{work}` is replaced by the work folder.
        warm_up: untimed runs first, which fill a disk cache.
        remark: what a reader should know, for the table's footnote.
    """

    title: str
    setup: str
    call: str
    environment: dict[str, str] = field(default_factory=dict)
    warm_up: int = 1
    remark: str = ""


OURS = "vplug_rs"
STANDARD = "importlib.metadata"
PLAIN = "30 lines of plain Python"
INSTALLED = "vplug_rs.install()"
STEVEDORE_HIT = "stevedore, disk cache hit"
PLUX_HIT = "plux, disk cache hit"

ALL = {
    candidate.title: candidate
    for candidate in (
        Candidate(STANDARD, "from importlib.metadata import entry_points", "entry_points(group=G)"),
        Candidate("importlib_metadata", "from importlib_metadata import entry_points", "entry_points(group=G)"),
        Candidate("entrypoints", "import entrypoints", "entrypoints.get_group_all(G)"),
        Candidate(
            "stevedore, no disk cache",
            "from stevedore import _cache",
            "_cache.get_group_all(G)",
            {"XDG_CACHE_HOME": "{work}/cache-off"},
        ),
        Candidate(
            STEVEDORE_HIT,
            "from stevedore import _cache",
            "_cache.get_group_all(G)",
            {"XDG_CACHE_HOME": "{work}/cache-on"},
            warm_up=3,
            remark="answers from disk without looking; stale after a re-install or an edit",
        ),
        Candidate(
            "plux, no disk cache",
            "from plux.runtime.metadata import MetadataEntryPointsResolver as R",
            "R().get_entry_points().get(G)",
        ),
        Candidate(
            PLUX_HIT,
            "from plux.runtime.cache import EntryPointsCache as C",
            "C.instance().get_entry_points().get(G)",
            {"HOME": "{work}/home-on"},
            warm_up=3,
            remark="answers from disk without looking; stale after a re-install or an edit",
        ),
        Candidate(
            "pluggy",
            "import pluggy",
            "pluggy.PluginManager('vllm').load_setuptools_entrypoints(G)",
            remark="cannot list without loading the plugins",
        ),
        Candidate(PLAIN, PLAIN_PYTHON, "eps(G)", remark="no errors handled, no shadowing rules, no objects"),
        Candidate(
            INSTALLED,
            "import vplug_rs; vplug_rs.install()\nfrom importlib.metadata import entry_points",
            "entry_points(group=G)",
            remark="pays for importing importlib.metadata",
        ),
        Candidate(OURS, "from vplug_rs import entry_points", "entry_points(group=G)"),
    )
}
