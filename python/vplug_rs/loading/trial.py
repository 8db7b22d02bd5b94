"""Loads plugins for somebody who only wants to know, in a process of its own.

In: one JSON object as the first argument (see `Wish`). Out: one JSON object in the file that it names, since plugins
may print what they like. Until the answer is there, the file names the plugin that is being loaded.
"""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypedDict

    from vplug_rs.policy import Policy

    class Wish(TypedDict):
        """What is to be tried.

        Attributes:
            group: The entry point group.
            names: Plugins of it, to be loaded one after the other, or None for all as a host loads them.
            path: `sys.path` as the asker sees it.
            policy: ["open"], ["file", path], ["env", variable] or ["vllm"].
            out: The file for the answer.
        """

        group: str
        names: list[str] | None
        path: list[str]
        policy: list[str]
        out: str


def policy_of(words: list[str]) -> Policy:
    """The policy that these words name."""
    from vplug_rs.policy import Policy

    if words[0] == "file":
        return Policy.from_file(words[1])
    if words[0] == "env":
        return Policy.from_env(words[1])
    return Policy.vllm() if words[0] == "vllm" else Policy(origin="the default policy")


def answer(wish: Wish) -> dict[str, Any]:
    """The report of the group after loading, with `error` where the loader refused as a whole."""
    import warnings
    from contextlib import suppress

    from vplug_rs.errors import PluginLoadError, PluginWarning, VplugError
    from vplug_rs.loader import PluginLoader

    warnings.simplefilter("ignore", PluginWarning)  # all of it stands in the report
    sys.path[:] = wish["path"]
    error = None
    loader = PluginLoader(wish["group"], policy=policy_of(wish["policy"]), kind="any")
    try:
        if wish["names"] is None:
            loader.load()
        for name in wish["names"] or ():
            _write(wish, {"loading": name})
            with suppress(PluginLoadError):  # the failure is in the report
                loader.get(name)
    except PluginLoadError:
        pass  # likewise
    except VplugError as refusal:
        error = str(refusal)
    return {**loader.report().data, "error": error}


def _write(wish: Wish, found: dict[str, Any]) -> None:
    text = json.dumps(found)
    with open(wish["out"], "w", encoding="utf-8") as stream:
        stream.write(text)


def main() -> None:
    """Answers the wish in the first argument."""
    wish: Wish = json.loads(sys.argv[1])
    _write(wish, answer(wish))
    sys.stdout.flush()
    os._exit(0)  # threads that a plugin has started must not keep us
