"""Asks one platform plugin in a process of its own. Here the parent's side, and `main` of the child.

In: one JSON object as the first argument. Out: one JSON object, a probe's fields, on the stdout that the process got;
what the plugin prints goes to stderr.
"""

from __future__ import annotations

import os
import sys

from vplug_rs.platforms import hints
from vplug_rs.platforms.model import Evidence, Probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from vplug_rs.loading.plugin import Plugin
    from vplug_rs.platforms.isolated import End, Job

# submodules are found beside the package, so the path is the asker's alone from then on
_START = (
    "import json, sys; wish = json.loads(sys.argv[1]); sys.path.insert(0, wish['home']); import vplug_rs; "
    "from vplug_rs.platforms.children import plugins; plugins.main(wish)"
)
_FIELDS: dict[str, type | tuple[type, ...]] = {"status": str, "reason": str, "ms": (int, float)}
_MOST_TEXT = 300


def job(plugin: Plugin, environment: Mapping[str, str] | None, path: Sequence[str] | None) -> Job:
    """What is to be run.

    Args:
        plugin: The one that is asked.
        environment: What the process gets, or None for this one's.
        path: Its `sys.path`, or None for this one's.
    """
    import json

    import vplug_rs
    from vplug_rs.platforms.isolated import Job, interpreter

    home = os.path.dirname(os.path.dirname(os.path.abspath(vplug_rs.__file__)))
    key = [plugin.label, plugin.name, plugin.value]
    wish = {"home": home, "path": list(sys.path if path is None else path), "key": key}
    words = [interpreter(), "-P", "-c", _START, json.dumps(wish)]
    return Job(
        f"the process that asked plugin `{plugin.name}`", words, None if environment is None else {**environment}
    )


def read(end: End, unanswered: Probe) -> Probe:
    """The plugin's probe.

    Args:
        end: What became of the process.
        unanswered: The probe that counts if it gave no answer; the reason is added.
    """
    for event in end.events:
        probe = _probe(event, unanswered)
        if probe is not None:
            probe.isolated = True
            return probe
    said = end.stderr.strip().splitlines()
    unanswered.reason = end.detail.rstrip(".") + (f"; its last words: {said[-1][:_MOST_TEXT]}" if said else "")
    unanswered.evidence[0].result, unanswered.evidence[0].text = end.how, unanswered.reason
    unanswered.ms, unanswered.isolated = 1000 * end.seconds, end.how not in hints.NEVER_STARTED
    if not unanswered.isolated:  # no fault of the plugin's
        unanswered.hint = hints.advise(hints.NEVER_STARTED[end.how])
    return unanswered


def _probe(event: dict[str, Any], model: Probe) -> Probe | None:
    """What an event says of the plugin of a probe, or None if it says nothing that we could have written."""
    qualname, hint, evidence = event.get("qualname"), event.get("hint"), event.get("evidence")
    if not all(isinstance(event.get(name), kind) for name, kind in _FIELDS.items()):
        return None
    if not all(text is None or isinstance(text, str) for text in (qualname, hint)) or not isinstance(evidence, list):
        return None
    try:
        rows = [Evidence(**row) for row in evidence]
    except TypeError:
        return None
    return Probe(
        model.platform,
        event["status"],
        source=model.source,
        qualname=qualname,
        reason=event["reason"],
        evidence=rows,
        backend=model.backend,
        ms=event["ms"],
        hint=hint,
    )


def main(wish: dict[str, Any]) -> None:
    """Answers a wish and ends the process.

    Args:
        wish: `home`, where this package lies; `path`, the asker's `sys.path`; `key`, the plugin's distribution, name
            and value.
    """
    import json

    out, process = os.dup(1), os.getpid()
    os.dup2(2, 1)
    sys.path[:] = wish["path"]
    from vplug_rs.platforms import outside

    loader = outside.PlatformLoader()
    allowed, _ = loader.rows()
    (plugin,) = [row for row in allowed if [row.label, row.name, row.value] == wish["key"]][:1]
    probe = loader.ask(plugin)
    if os.getpid() == process:  # and no child that the plugin has left in here
        os.write(out, json.dumps(probe.as_dict()).encode() + b"\n")
    os._exit(0)  # threads that the plugin has started must not keep us
