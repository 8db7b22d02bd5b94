"""What became of vLLM's plugins in this process, as Prometheus metrics on the API server's /metrics route."""

from __future__ import annotations

from weakref import WeakSet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_registries: WeakSet[Any] = WeakSet()


class Collector:
    """Reads the loaders' rows when it is asked; it imports and calls nothing."""

    def collect(self) -> Iterator[Any]:
        """`vplug_plugin_state` (1 for the state that it is in) and `vplug_plugin_seconds`, for each plugin."""
        from prometheus_client.core import GaugeMetricFamily

        from vplug_rs.vllm.selection import rows

        labels = ("group", "plugin", "value", "distribution", "version", "state")
        states = GaugeMetricFamily("vplug_plugin_state", "1 for the state that a vLLM plugin is in.", labels=labels)
        seconds = GaugeMetricFamily(
            "vplug_plugin_seconds", "Seconds that importing and calling a vLLM plugin took.", labels=labels[:5]
        )
        seen = set()
        for plugin in rows():
            words = (plugin.group, plugin.name, plugin.value, plugin.project or "", plugin.version or "")
            if words in seen:  # two copies of one distribution: the format knows no sample twice
                continue
            seen.add(words)
            states.add_metric((*words, plugin.state), 1)
            seconds.add_metric(words, plugin.failure.seconds if plugin.failure is not None else plugin.seconds)
        yield states
        yield seconds


def add(registry: Any) -> None:
    """Adds the collector to a Prometheus registry, once."""
    if registry not in _registries:
        _registries.add(registry)
        registry.register(Collector())
