"""Results as data with a schema version, and as tables for people."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from vplug_logits.evaluation.states import SOURCES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import torch

    from vplug_logits.evaluation.measures import Results
    from vplug_logits.evaluation.states import States

SCHEMA = 1
"""The version of the JSON document; it is raised when a field changes its meaning or goes away."""

RULE_OF_THREE = 3.0  # 0 misses of N: with 95 % confidence the rate is below 3 / N


def summary(results: Results) -> dict[str, Any]:
    """The results of some states as numbers; None where a method has nothing to say.

    Returns:
        states; misses and ties (counts); miss_rate; top_kept (mean share); variation_mean, variation_largest;
        top_error_mean, top_error_largest; rest_error_mean; rest_sigma (root mean square, in
        standard deviations of the estimates), rest_sigma_largest; rescored_mean, rescored_p99; fallback_rate.
    """
    count = len(results.missed)
    return {
        "states": count,
        "misses": int(results.missed.sum()),
        "ties": int(results.tied.sum()),
        "miss_rate": _number(results.missed.double().mean()),
        "top_kept": _number(results.top_kept.double().mean()),
        "variation_mean": _number(results.variation.double().mean()),
        "variation_largest": _number(results.variation.amax()),
        "top_error_mean": _number(results.top_error.double().mean()),
        "top_error_largest": _number(results.top_error.amax()),
        "rest_error_mean": _number(results.rest_error.mean()),
        "rest_sigma": _number(results.rest_square.double().mean().sqrt()),
        "rest_sigma_largest": _number(results.rest_largest.amax()),
        "rescored_mean": _number(results.rescored.double().mean()),
        "rescored_p99": _number(_quantile(results.rescored, 0.99)),
        "fallback_rate": _number(results.fallback.double().mean()),
    }


def by_domain(results: Results, states: States) -> dict[str, dict[str, Any]]:
    """A summary for each domain."""
    return {name: summary(results.at(states.domain == index)) for index, name in enumerate(states.domains)}


def by_source(results: Results, states: States) -> dict[str, dict[str, Any]]:
    """A summary for each source that there are states of."""
    found = {name: states.source == index for index, name in enumerate(SOURCES)}
    return {name: summary(results.at(mine)) for name, mine in found.items() if bool(mine.any())}


def sources(states: States) -> dict[str, dict[str, int]]:
    """How many states each domain has from each source."""
    return {domain: {source: states.count(domain, source) for source in SOURCES} for domain in states.domains}


def tables(document: Mapping[str, Any]) -> str:
    """The document as text: what was measured, winners and bytes, distributions, misses by domain and source."""
    return "\n\n".join(
        (_opening(document), _winners(document), _distributions(document), _domains(document), _closing(document))
    )


def _opening(document: Mapping[str, Any]) -> str:
    kinds = {source: sum(each[source] for each in document["sources"].values()) for source in SOURCES}
    return (
        f"{document['model']}: V = {document['vocabulary']:,}, d = {document['width']:,}, {document['dtype']}; "
        f"{document['states']:,} distinct states:\n"
        f"{kinds['text']:,} while reading, {kinds['greedy']:,} while continuing "
        f"greedily, {kinds['sampled']:,} while sampling at T = 1 (seed {document['seed']}).\n"
        "Bytes of a step of one sequence are told as a share of a dense 16-bit head, "
        f"{document['dense_bytes'] / 1e6:,.1f} MB."
    )


def _winners(document: Mapping[str, Any]) -> str:
    lines: list[Sequence[str]] = [("top-1", "bytes %", "misses", "miss %", "ties", "rows", "rows p99", "dense %")]
    for method in document["methods"]:
        one = method["all"]
        lines.append(
            (
                method["name"],
                f"{100 * method['bytes'] / document['dense_bytes']:.1f}",
                f"{one['misses']:,}",
                _share(one["miss_rate"], 3),
                f"{one['ties']:,}",
                _fixed(one["rescored_mean"], 0),
                _fixed(one["rescored_p99"], 0),
                _share(one["fallback_rate"], 2),
            )
        )
    return (
        f"{_aligned(lines)}\n"
        "misses: another token wins than densely in float64, and no rounding step explains it; ties: one rounding\n"
        f"step of {document['dtype']} does.  rows: scored exactly, mean and 99th percentile.  dense %: answered\n"
        "densely instead."
    )


def _distributions(document: Mapping[str, Any]) -> str:
    lines: list[Sequence[str]] = [
        ("probabilities", "top 20 %", "TV", "TV max", "top err", "top max", "rest err", "rest sd", "rest max sd")
    ]
    for method in document["methods"]:
        one = method["all"]
        lines.append(
            (
                method["name"],
                _share(one["top_kept"], 2),
                _small(one["variation_mean"]),
                _small(one["variation_largest"]),
                _small(one["top_error_mean"]),
                _small(one["top_error_largest"]),
                _small(one["rest_error_mean"]),
                _fixed(one["rest_sigma"], 2),
                _fixed(one["rest_sigma_largest"], 1),
            )
        )
    return (
        f"{_aligned(lines)}\n"
        "top 20 %: how many of the 20 best tokens are dense's.  TV: total variation at T = 1, mean and largest.\n"
        "top: the largest difference of log-probability among dense's 20 best tokens, mean over states and largest;\n"
        "rest: of all other tokens, mean; root mean square and largest in standard deviations of the estimates."
    )


def _domains(document: Mapping[str, Any]) -> str:
    domains = list(document["sources"])
    ways = [source for source in SOURCES if source in document["methods"][0]["sources"]]
    lines: list[Sequence[str]] = [("miss %", *domains, *ways)]
    for method in document["methods"]:
        found = [method["domains"][name] for name in domains] + [method["sources"][name] for name in ways]
        lines.append((method["name"], *(_share(one["miss_rate"], 3) for one in found)))
    first = document["methods"][0]
    found = [first["domains"][name] for name in domains] + [first["sources"][name] for name in ways]
    lines.append(("states", *(f"{one['states']:,}" for one in found)))
    return _aligned(lines)


def _closing(document: Mapping[str, Any]) -> str:
    bound = 100 * RULE_OF_THREE / document["states"]
    return f"0 misses of {document['states']:,}: with 95 % confidence below {bound:.3f} %.  -: does not apply.\n"


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    rows = []
    for line in lines:
        first, *others = (cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        rows.append("  ".join((first.strip().ljust(widths[0]), *others)).rstrip())
    return "\n".join(rows)


def _number(value: torch.Tensor) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None


def _quantile(values: torch.Tensor, share: float) -> torch.Tensor:
    """The smallest value that is not exceeded by `share` of them."""
    return values.double().sort().values[max(0, math.ceil(share * len(values)) - 1)]


def _fixed(value: float | None, places: int) -> str:
    return "-" if value is None else f"{value:,.{places}f}"


def _share(value: float | None, places: int) -> str:
    return "-" if value is None else f"{100 * value:.{places}f}"


def _small(value: float | None) -> str:
    return "-" if value is None else "0" if value == 0 else f"{value:.4f}" if value >= 1e-3 else f"{value:.0e}"  # noqa: PLR2004
