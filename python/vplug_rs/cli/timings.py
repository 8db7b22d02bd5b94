"""A whole group on trial: what each plugin costs, and which of them takes its process down, alone or together.

In: a group and the arguments that name a policy. Out: the loader's report as plain data, with what only a look from
outside can know.
"""

from __future__ import annotations

from vplug_rs.cli import trial
from vplug_rs.cli.trial import TrialError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

SHOWN_NAMES = 3


def load_group(group: str, args: argparse.Namespace) -> dict[str, Any]:
    """Load a group; where that takes the process down, each plugin in a process of its own.

    Args:
        group: The entry point group.
        args: The parsed arguments.

    Returns:
        As `trial.load`; a plugin that did not outlive its process has the state of the `TrialError`. `error` says too
        what befell the group where no plugin does the same alone. Each plugin has its `order`, its place among those
        that are loaded, or None.
    """
    try:
        found = trial.load(group, None, args)
    except TrialError as error:
        found = _one_by_one(group, args)
        _number(group, found["plugins"], args)
        if all(plugin["state"] != error.state for plugin in found["plugins"]):
            found["error"] = _together(group, found["plugins"], error, args)
    else:
        _number(group, found["plugins"], args)
    return found


def _one_by_one(group: str, args: argparse.Namespace) -> dict[str, Any]:
    found = trial.unloaded(group, args)
    for number, plugin in enumerate(found["plugins"]):
        if plugin["state"] == "filtered":
            continue
        try:
            alone = trial.load(group, [plugin["name"]], args)
        except TrialError as error:
            plugin.update(state=error.state, failure=error.failure)
        else:
            found["plugins"][number] = next((row for row in alone["plugins"] if _same(row, plugin)), plugin)
            found["error"] = found["error"] or alone["error"]
    return found


def _together(group: str, plugins: list[dict[str, Any]], error: TrialError, args: argparse.Namespace) -> str:
    """What befell the group though no plugin does it alone, with the first plugin that does it after others."""
    text = f"{error}; no plugin does that alone"
    ordered = sorted((plugin for plugin in plugins if plugin["order"] is not None), key=lambda plugin: plugin["order"])
    names = [plugin["name"] for plugin in ordered]
    try:
        trial.load(group, names, args)
    except TrialError as again:
        before = names[: names.index(again.loading)] if again.loading in names else []
        if before:
            others = "`" + "`, `".join(before) + "`" if len(before) <= SHOWN_NAMES else f"{len(before)} others"
            text += f", `{again.loading}` does it after {others}"
    return text


def _number(group: str, plugins: list[dict[str, Any]], args: argparse.Namespace) -> None:
    """Gives each plugin its place in the loading order, by the same judgement as the loader's."""
    from vplug_rs.policy import Policy

    filtered = {number for number, plugin in enumerate(plugins) if plugin["state"] == "filtered"}
    # the losers among doubles take part: where they stand may decide where the one that counts is loaded
    apart = {number: ("", "") for number in filtered if plugins[number]["reason"] != "collision"}
    candidates = [(plugin["name"], plugin["distribution"] or "") for plugin in plugins]
    judgement = (trial.policy(args) or Policy()).judge(group, candidates, refused=apart)
    places = {number: place for place, number in enumerate((n for n in judgement.order if n not in filtered), 1)}
    for number, plugin in enumerate(plugins):
        plugin["order"] = places.get(number)


def _same(one: dict[str, Any], two: dict[str, Any]) -> bool:
    return all(one[key] == two[key] for key in ("name", "value", "metadata_path"))
