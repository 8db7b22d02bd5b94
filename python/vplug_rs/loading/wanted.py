"""What a loaded plugin is, held against what its group wants: nothing, or the record of a failure."""

from __future__ import annotations

from vplug_rs import groups
from vplug_rs.loading.plugin import Failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vplug_rs.loading.plugin import Plugin


def check(plugin: Plugin) -> Failure | None:
    """The record of a value, or of the answer to its call, that is of the wrong kind, or None."""
    error, phase = groups.check(plugin), "resolve"
    if error is None and plugin.called is not None:
        error, phase = groups.check_answer(plugin, plugin.result), "call"
    # the record names the plugin itself
    return None if error is None else Failure(plugin, phase, TypeError(error.reason), hint=error.hint)
