"""A timeline -> one HTML page that needs nothing else: no script, no font, no picture from outside."""

from __future__ import annotations

import math
from html import escape

from vplug_rs.tracing.timeline import CALL, IMPORT, METADATA, busy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from vplug_rs.tracing.timeline import Event, Process

WIDTH, LEFT, RIGHT = 1120, 190, 20
LANE, BAR, AXIS = 34, 16, 28
MOST_LANES = 60
MOST_ROWS = 200
MOST_DRAWN = 2_000  # events in a lane
MOST_DRAWN_IN_ALL = 20_000
NARROW = 0.5  # in pixels: of those that are narrower, one is drawn on a pixel
MOST_LABEL = 20  # what fits beside the lanes
MARKS = 5
COLOURS = {METADATA: "var(--metadata)", IMPORT: "var(--import)", CALL: "var(--call)"}
NAMES = {METADATA: "metadata call", IMPORT: "plugin import", CALL: "plugin call"}
STYLE = """
:root { color-scheme: light dark; --ink: #1b2430; --faint: #64748b; --line: #d5dbe3; --lane: #eef1f5; --paper: #ffffff;
  --metadata: #1f5fa8; --import: #c2410c; --call: #7c3aed; --run: #cbd5e1; }
@media (prefers-color-scheme: dark) { :root { --ink: #e5e9f0; --faint: #94a3b8; --line: #334155; --lane: #1e293b;
  --paper: #0f172a; --metadata: #60a5fa; --import: #fb923c; --call: #c4b5fd; --run: #475569; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
  max-width: 1160px; padding: 0 1rem; }
h1 { font-size: 1.35rem; margin: 0 0 .25rem; overflow-wrap: anywhere; } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
p { margin: .25rem 0; color: var(--faint); } svg { width: 100%; height: auto; display: block; margin-top: 1rem; }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink); } svg .faint { fill: var(--faint); }
.key span { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin: 0 .35em 0 1.2em; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: 13px; }
th, td { text-align: left; padding: .25rem .6rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td code { font: 12px ui-monospace, monospace; overflow-wrap: anywhere; }
"""


def page(words: list[str], processes: list[Process], status: int, seconds: float) -> str:
    """The page.

    Args:
        words: The program and its arguments.
        processes: The timeline.
        status: The program's exit status.
        seconds: How long the program ran.
    """
    events = [(process, event) for process in processes for event in process.events]
    title = escape(" ".join(words))
    told = f"{len(processes)} Python processes, {seconds:.2f} s, exit status {status}"
    return "\n".join(
        [
            "<!doctype html>",
            f'<html lang="en"><head><meta charset="utf-8"><title>vplug trace: {title}</title>',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<style>{STYLE}</style></head><body>",
            f"<h1>{title}</h1><p>{told}</p>",
            _lead(processes),
            _key(),
            _chart(processes) if processes else "<p>No Python process was reached.</p>",
            _processes(processes),
            _events(events),
            "</body></html>",
        ]
    )


def _lead(processes: list[Process]) -> str:
    if not any(process.events for process in processes):
        return "<p>Nothing asked for metadata, and no plugin was loaded.</p>"
    most = max(processes, key=lambda process: busy(process.events))
    later = f", and {busy(most.later) * 1e3:.0f} ms later" if most.later else ""
    return (
        f"<p>Most in process {most.pid}: discovery and plugins took {most.busy() * 1e3:.0f} ms, "
        f"{most.share:.0%} of its first {most.startup * 1e3:.0f} ms{later}.</p>"
    )


def _key() -> str:
    marks = "".join(f'<span style="background:{COLOURS[kind]}"></span>{NAMES[kind]}' for kind in NAMES)
    pale = f'<span style="background:{COLOURS[METADATA]};opacity:.5"></span>with other work in between'
    return f'<p class="key"><span style="background:var(--run)"></span>process runs{marks}{pale}</p>'


def _chart(processes: list[Process]) -> str:
    """Lanes of processes over the time until the last start-up has ended; what comes later is told below."""
    shown = processes[:MOST_LANES]
    zero = min(process.start for process in shown)
    last = max((process.start + process.startup for process in shown if process.early), default=0.0)
    last = last or max(process.end for process in shown)
    span = max((last - zero) * 1.04, 1e-4)
    height = AXIS + LANE * len(shown) + 6
    scale = (WIDTH - LEFT - RIGHT) / span

    def at(moment: float) -> float:
        return LEFT + min(max(moment - zero, 0.0), span) * scale

    parts = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="timeline of the processes">']
    step = _step(span)
    for number in range(int(span / step) + 1):
        x = LEFT + number * step * scale
        parts.append(f'<line x1="{x:.1f}" y1="{AXIS - 6}" x2="{x:.1f}" y2="{height}" stroke="var(--line)"/>')
        label = f"{number * step * 1e3:g} ms"
        parts.append(f'<text class="faint" x="{x:.1f}" y="{AXIS - 12}" text-anchor="middle">{label}</text>')
    most = min(MOST_DRAWN, MOST_DRAWN_IN_ALL // len(shown))
    left_out, beyond = [], []
    for number, process in enumerate(shown):
        events = [event for event in process.events if event.start <= last]
        drawn = _drawn(events, at, most)
        parts += _lane(process, drawn, AXIS + number * LANE, at)
        if len(drawn) < len(events):
            left_out.append(f"{len(events) - len(drawn)} of {len(events)} calls of process {process.pid}")
        if len(events) < len(process.events):
            after = process.events[len(events) :]
            told = f"{len(after)} of {len(process.events)} calls of process {process.pid}"
            beyond.append(f"{told} ({busy(after) * 1e3:.1f} ms)")
    parts.append("</svg>")
    if beyond:
        parts.append(f"<p>Not drawn, for they come after the start-up: {', '.join(beyond)}.</p>")
    if left_out:
        parts.append(f"<p>Not drawn, for want of pixels: {', '.join(left_out)}. --json has all.</p>")
    if len(processes) > len(shown):
        parts.append(f"<p>{len(processes) - len(shown)} more processes are not drawn.</p>")
    return "\n".join(parts)


def _step(span: float) -> float:
    """A round distance between marks, so that there are five to ten of them."""
    size: float = 10 ** math.floor(math.log10(span / MARKS))
    return next(size * factor for factor in (1, 2, 5, 10) if span / (size * factor) <= MARKS * 2)


def _drawn(events: list[Event], x: Callable[[float], float], most: int) -> list[tuple[Event, int]]:
    """The events that a lane has room for, the longest first, each with the number of those that it hides."""
    chosen: dict[tuple[object, ...], list[Event]] = {}
    for number, event in sorted(enumerate(events), key=lambda pair: -pair[1].seconds):
        left = x(event.start)
        narrow = x(event.end) - left < NARROW
        chosen.setdefault((event.kind, int(left)) if narrow else (number,), []).append(event)
    drawn = [(hidden[0], len(hidden) - 1) for hidden in list(chosen.values())[:most]]
    return sorted(drawn, key=lambda pair: (pair[0].start, -pair[0].end))  # what is nested lies on top


def _lane(process: Process, drawn: list[tuple[Event, int]], top: float, x: Callable[[float], float]) -> list[str]:
    left, right = x(process.start), x(process.end)
    middle = top + LANE / 2
    label = escape(f"{process.pid} {_short(process)}")
    width = WIDTH - LEFT - RIGHT
    parts = [
        f'<rect x="{LEFT}" y="{top + 2}" width="{width}" height="{LANE - 4}" rx="3" fill="var(--lane)"/>',
        f'<text x="0" y="{middle + 4}">{label}<title>{escape(" ".join(process.words))}</title></text>',
        f'<rect x="{left:.2f}" y="{middle - 2}" width="{max(right - left, 1):.2f}" height="4" fill="var(--run)"/>',
    ]
    for event, hidden in drawn:
        start, end = x(event.start), x(event.end)
        size = BAR if event.kind == METADATA else BAR - 6
        pale = "" if event.is_whole else ' opacity=".5"'
        parts.append(
            f'<rect x="{start:.2f}" y="{middle - size / 2}" width="{max(end - start, 1.2):.2f}" height="{size}" '
            f'fill="{COLOURS[event.kind]}"{pale} rx="2"><title>{escape(_told(event, hidden))}</title></rect>'
        )
    return parts


def _told(event: Event, hidden: int) -> str:
    failed = f" raised {event.error}" if event.error else ""
    more = f"\nand {hidden} shorter ones here" if hidden else ""
    return f"{NAMES[event.kind]}, {event.seconds * 1e3:.2f} ms{failed}\n{event.told}\n{event.caller}{more}"


def _short(process: Process) -> str:
    if process.how == "forked":
        return f"forked from {process.parent}"
    text = " ".join(word.rpartition("/")[2] for word in process.words[:1])
    rest = process.words[1:]
    for number, word in enumerate(rest):
        if word in {"-c", "-m"}:
            text = " ".join(rest[number : number + 2])
            break
        if not word.startswith("-"):
            text = word.rpartition("/")[2]
            break
    return text if len(text) <= MOST_LABEL else text[: MOST_LABEL - 1] + "…"


def _processes(processes: list[Process]) -> str:
    rows = [
        f'<tr><td class="number">{process.pid}</td><td class="number">{process.parent}</td><td>{process.how}</td>'
        f'<td class="number">{(process.end - process.start) * 1e3:.0f}</td>'
        f'<td class="number">{process.startup * 1e3:.0f}</td>'
        f'<td class="number">{process.busy(METADATA) * 1e3:.1f}</td>'
        f'<td class="number">{process.busy(IMPORT, CALL) * 1e3:.1f}</td>'
        f'<td class="number">{process.share:.0%}</td><td class="number">{busy(process.later) * 1e3:.1f}</td>'
        f"<td><code>{escape(' '.join(process.words))}</code></td></tr>"
        for process in processes[:MOST_ROWS]
    ]
    head = (
        '<tr><th class="number">process</th><th class="number">parent</th><th>how</th><th class="number">ms</th>'
        '<th class="number">start-up ms</th><th class="number">metadata ms</th><th class="number">plugins ms</th>'
        '<th class="number">share</th><th class="number">later ms</th><th>command</th></tr>'
    )
    told = (
        "<p>Start-up lasts until the last metadata call or plugin before the first quiet time; metadata, plugins and "
        "share are those of the start-up, later is both after it.</p>"
    )
    more = f": {len(processes)}, the first {MOST_ROWS}" if len(processes) > MOST_ROWS else ""
    return f'<h2>Processes{more}</h2>{told}<div class="wide"><table>{head}{"".join(rows)}</table></div>'


def _events(events: list[tuple[Process, Event]]) -> str:
    longest = sorted(events, key=lambda pair: -pair[1].seconds)[:MOST_ROWS]
    rows = [
        f'<tr><td class="number">{event.seconds * 1e3:.2f}</td><td>{NAMES[event.kind]}</td>'
        f"<td><code>{escape(event.told)}</code>{f'<br>raised {escape(event.error)}' if event.error else ''}</td>"
        f'<td><code>{escape(event.caller)}</code></td><td class="number">{process.pid}</td></tr>'
        for process, event in longest
    ]
    head = (
        '<tr><th class="number">ms</th><th>kind</th><th>what</th><th>asked by</th><th class="number">process</th></tr>'
    )
    more = f", the {MOST_ROWS} longest" if len(events) > MOST_ROWS else ""
    title = f"<h2>Calls: {len(events)}{more}</h2>"
    return f'{title}<div class="wide"><table>{head}{"".join(rows)}</table></div>'
