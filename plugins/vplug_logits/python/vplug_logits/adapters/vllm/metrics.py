"""The counters of all workers as Prometheus metrics: on the API server's /metrics, without a patch of vLLM.

vLLM shows the process's own default registry there, so a collector in it is enough; it reads the workers' figures
when it is asked. With several API servers vLLM shows `prometheus_client`'s multiprocess files instead, which custom
collectors are not part of: there the figures are in `vplug_logits.plugin.state()` and the log only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vplug_logits.adapters.vllm import figures
from vplug_logits.adapters.vllm.log import log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType
    from typing import Any

_LABELS = ("head", "rank", "pid")
_COUNTERS = {
    "steps": "Calls of the head.",
    "rows": "Hidden states that the head was given.",
    "fallback_steps": "Calls in which at least one hidden state was answered densely.",
    "rescored_rows": "Rows of the vocabulary that were scored exactly.",
    "clipped": "Estimates that were lowered since they reached the winner.",
    "errors": "Exceptions of the head, after which the dense one answered.",
    "seconds": "Seconds in the head.",
    "scan_seconds": "Seconds in transform, scan and selection.",
    "rescore_seconds": "Seconds in exact logits.",
}


class Collector:
    """Reads the figures of a run when it is asked.

    Args:
        folder: Where the workers write them.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._has_failed = False

    def describe(self) -> list[Any]:
        """Nothing: so that a registry does not collect to find the names out."""
        return []

    def collect(self) -> Iterator[Any]:
        """`vplug_logits_active` (1 or 0, with mode, backend and reason), the counters, and fallbacks by reason."""
        try:
            yield from list(self._metrics())
        except Exception as error:  # noqa: BLE001  # all of the server's other metrics are behind this one
            if not self._has_failed:
                self._has_failed = True
                log.warning("vplug_logits is not shown by the metrics: %s: %s", type(error).__name__, error)

    def _metrics(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        heads = [(pid, head) for pid, found in figures.read(self._folder).items() for head in found.get("heads", ())]
        active = GaugeMetricFamily(
            "vplug_logits_active",
            "1 for a head that is answered in two stages, 0 for one that is left dense, and why.",
            labels=(*_LABELS, "mode", "backend", "reason"),
        )
        fallbacks = CounterMetricFamily(
            "vplug_logits_fallback_rows", "Hidden states that were answered densely.", labels=(*_LABELS, "reason")
        )
        counters = {
            name: CounterMetricFamily(f"vplug_logits_{name}", text, labels=_LABELS) for name, text in _COUNTERS.items()
        }
        most = GaugeMetricFamily(
            "vplug_logits_rescored_most", "Most rows scored exactly for one hidden state.", labels=_LABELS
        )
        for pid, head in heads:
            words = (head["name"], str(head["rank"]), str(pid))
            active.add_metric((*words, head["mode"], head["backend"], head["reason"]), float(head["state"] == "active"))
            found = head["counters"]
            for name, metric in counters.items():
                metric.add_metric(words, found[name])
            most.add_metric(words, found["rescored_most"])
            for reason, rows in found["fallbacks"].items():
                fallbacks.add_metric((*words, reason), rows)
        yield active
        yield fallbacks
        yield from counters.values()
        yield most


def add(module: ModuleType, folder: str) -> None:
    """Add the collector to the default registry.

    Args:
        module: `prometheus_client`.
        folder: Where the workers write their figures.
    """
    module.REGISTRY.register(Collector(folder))
