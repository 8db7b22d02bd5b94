"""Metadata time of the processes of a vLLM, summed up from what `vplug trace` wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lab import Done

SECTIONS: dict[str, list[str]] = {}  # title -> lines, shown at the end of the run
INSPECTION = "vllm.model_executor.models.registry"  # starts only where its cache is cold


def say(title: str, *lines: str) -> None:
    """Have lines shown at the end."""
    SECTIONS.setdefault(title, []).extend(lines)


def metadata_calls(process: dict[str, Any]) -> list[dict[str, Any]]:
    """The metadata calls of a process; the import of the module itself is none."""
    return [
        event for event in process["events"] if event["kind"] == "metadata" and not event["what"].startswith("import ")
    ]


def milliseconds(process: dict[str, Any]) -> float:
    """What its metadata calls took."""
    return 1e3 * float(sum(event["seconds"] for event in metadata_calls(process)))


def engine_processes(done: Done) -> list[dict[str, Any]]:
    """The processes of a start that ask for metadata, less the one that looks at a model for the first time."""
    return [
        process
        for process in done.processes
        if len(metadata_calls(process)) > 5 and INSPECTION not in " ".join(process["command"])
    ]


def compare(title: str, sides: dict[str, Done]) -> dict[str, float]:
    """Have a table of all sides shown, and give how many times less each side takes than the first.

    What it takes us to come into each process counts on our sides.
    """
    lines, sums = [], {}
    for side, done in sides.items():
        processes = engine_processes(done)
        times = [milliseconds(process) for process in processes]
        ours = 1e3 * done.answer["activation"]
        sums[side] = sum(times) + ours * len(processes)
        before = next(iter(sums.values()))
        each = " + ".join(f"{time:.1f}" for time in times)
        lines.append(
            f"{side:8} {sum(len(metadata_calls(process)) for process in processes):4} calls {each:>26} ms, "
            f"ours {ours:4.1f} a process, all {sums[side]:7.1f} ms = {sums[side] / done.answer['seconds'] / 10:4.1f} % "
            f"of the start, {before / sums[side]:5.1f} times less"
        )
    say(f"metadata time, {title}", *lines)
    return {side: next(iter(sums.values())) / total for side, total in sums.items()}
