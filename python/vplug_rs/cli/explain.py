"""The words of `vplug why`: an `Answer` -> text.

In: the facts. Out: a headline, the facts in two columns, and a `hint:` line with the next step.
"""

from __future__ import annotations

from vplug_rs import report
from vplug_rs.cli.evidence import ABSENT, AMBIGUOUS, DAMAGED, HIDDEN, LIVE, MISSING_MODULE
from vplug_rs.cli.findings import place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vplug_rs._core import Diagnostic
    from vplug_rs.cli.evidence import Answer, DistributionCase, EntryCase
    from vplug_rs.cli.inventory import Copy, Entry

SHOWN_ENTRIES = 6


def text_of(answer: Answer) -> str:
    """Put an answer into words.

    Args:
        answer: The facts.
    """
    if answer.status == ABSENT:
        return _absent(answer)
    told: set[int] = set()
    blocks = []
    for case in answer.entries:
        if id(case.entry) not in told:  # rivals are told of once, beside each other
            blocks.append(_entry(case))
        told.update(id(rival) for rival in case.rivals)
    blocks += [_damaged(answer.name, finding) for finding in answer.damaged]
    blocks += [_distribution(case) for case in answer.distributions]
    return "\n\n".join(blocks)


def _block(headline: str, pairs: list[tuple[str, str]], hint: str | None = None) -> str:
    return "\n".join([headline, report.fields(pairs), *([f"hint: {hint}"] if hint else [])])


def _declared(entry: Entry) -> str:
    return f"{entry.file}:{entry.line}"


def _entry(case: EntryCase) -> str:
    entry, copy = case.entry, case.entry.copy
    name, group = f"`{entry.name}`", f"group `{entry.group}`"
    pairs = [("value", entry.value)]
    if case.status == HIDDEN:
        pairs.append(("group", entry.group))
    if case.module is not None and case.status != HIDDEN:
        pairs.append(("module", case.module.path or case.module.detail))
    pairs.append(("declared in", _declared(entry)))
    if case.status != HIDDEN:
        pairs.append(("distribution", copy.label))
    pairs += [(finding.severity, finding.message) for finding in case.findings]
    claims = [f"{rival.copy.label}: {rival.value}, {_declared(rival)}" for rival in case.rivals[: SHOWN_ENTRIES + 1]]
    pairs += _some("also claimed", claims, len(case.rivals))
    twins = list(dict.fromkeys(twin.copy for twin in case.twins))
    label = "also hidden" if case.status == HIDDEN else "hides"
    pairs += _some(label, [_where(copy) for copy in twins[: SHOWN_ENTRIES + 1]], len(twins))
    rank = f"entry point {case.place[0]} of {case.place[1]} in {group}" if case.place else group
    if case.status == HIDDEN:
        return _hidden(case, pairs)
    if case.status == DAMAGED:
        advice = next((finding.advice for finding in case.findings), "the value must look like `module:attribute`")
        return _block(f"{name} is listed, but cannot be loaded: {rank}", pairs, advice)
    hint: str | None = None
    if case.status == MISSING_MODULE:
        hint = f"reinstall `{copy.name}`, or uninstall it if you do not need it"
        return _block(f"{name} is listed, but its module does not exist: {rank}", pairs, hint)
    if case.status == AMBIGUOUS:
        hint = f"uninstall {_one_of([copy.name, *(rival.copy.name for rival in case.rivals)])}"
        return _block(f"{name} is claimed by more than one distribution: {rank}", pairs, hint)
    if case.twins:
        hint = _delete(case.twins[0].copy, keep=copy)
    return _block(f"{name} is live: {rank}", pairs, hint)


def _some(label: str, texts: list[str], total: int) -> list[tuple[str, str]]:
    """The first of many facts of one kind, and how many more there are."""
    pairs = [(label, text) for text in texts[:SHOWN_ENTRIES]]
    return [*pairs, ("", f"and {total - SHOWN_ENTRIES} more")] if total > SHOWN_ENTRIES else pairs


def _hidden(case: EntryCase, pairs: list[tuple[str, str]]) -> str:
    entry, copy = case.entry, case.entry.copy
    winner = copy.hidden_by
    if winner is None:
        pairs.append(("not used", f"{_where(copy)} ({copy.state})"))
        hint = f"reinstall `{copy.name}`; if you do not need it, delete `{copy.path}`"
        return _block(f"`{entry.name}` is hidden: the copy of `{copy.name}` that offers it does not count", pairs, hint)
    why = "comes first on the path" if winner.path_entry != copy.path_entry else "in the same folder wins"
    pairs.append(("hidden", _where(copy)))
    pairs.append(("used instead", f"{_where(winner)}, which has no such entry point"))
    headline = f"`{entry.name}` is hidden: another copy of `{copy.name}` {why}"
    return _block(headline, pairs, _delete(winner, keep=copy))


def _distribution(case: DistributionCase) -> str:
    copy = case.copy
    pairs = [("metadata", copy.path)]
    shown = case.entries[:SHOWN_ENTRIES]
    for number, entry in enumerate(shown):
        label = "" if number else "entry points"
        pairs.append((label, f"{entry.name} = {entry.value}  ({entry.group})"))
    if len(case.entries) > len(shown):
        pairs.append(("", f"and {len(case.entries) - len(shown)} more"))
    if not case.entries:
        pairs.append(("entry points", "none"))
    pairs += [("hides" if case.status == LIVE else "also found", _where(other)) for other in case.others]
    pairs += [(finding.severity, f"{finding.message} ({place(finding)})") for finding in case.findings]
    hint = next((finding.advice for finding in case.findings if finding.advice), None)
    if case.status == LIVE:
        if case.others:
            hint = _delete(case.others[0], keep=copy)
        return _block(f"`{copy.name}` is an installed distribution, version {copy.version}", pairs, hint)
    if case.status == HIDDEN:
        return _block(f"`{copy.name}` {copy.version} is hidden", pairs, hint or f"delete `{copy.path}`")
    fallback = f"reinstall `{copy.name}`, or delete `{copy.path}`"
    return _block(f"`{copy.name}` {copy.version} is damaged", pairs, hint or fallback)


def _damaged(name: str, finding: Diagnostic) -> str:
    pairs = [("where", place(finding)), (finding.severity, finding.message)]
    if finding.distribution:
        pairs.append(("distribution", finding.distribution))
    return _block(f"`{name}` is damaged: its declaration cannot be read", pairs, finding.advice)


def _absent(answer: Answer) -> str:
    entries, distributions = answer.searched
    where = "" if answer.group is None else f" in group `{answer.group}`"
    kind = "entry point" if answer.group is not None else "entry point or distribution"
    text = f"`{answer.name}` is not here: no {kind} of that name{where}"
    looked = f"{report.count(entries, 'entry point')} of {report.count(distributions, 'distribution')}"
    near = [f"`{name}`, {what}" for name, what in answer.suggestions if name != answer.name]
    hints = [f"did you mean {', or '.join(near)}?"] if near else []
    for name, what in answer.suggestions:
        if name == answer.name:
            hints.append(f"`vplug list {name}` shows that group" if what == "a group" else f"it is {what}")
    hints = hints or ["is it installed for another Python? `vplug --version --verbose` shows which one this is"]
    return "\n".join([text, report.fields([("searched", looked)]), *(f"hint: {hint}" for hint in hints)])


def _where(copy: Copy) -> str:
    return f"{copy.label} in `{copy.path}`"


def _delete(unwanted: Copy, keep: Copy) -> str:
    what = f"`{keep.name}` {keep.version}" if keep.version != unwanted.version else f"the copy in `{keep.folder}`"
    return f"if {what} is the one you want, delete `{unwanted.path}`"


def _one_of(names: list[str]) -> str:
    return " or ".join(f"`{name}`" for name in dict.fromkeys(names))
