"""vLLM's answers and ours -> the same, a difference that is meant, or one that nobody can explain.

What is meant is stated by a second installation, made like the first without the faults that vLLM's loader cannot bear
(`vllm_site.MENDED`): our answer on the first has to be vLLM's answer on the second.
"""

from __future__ import annotations

from typing import Any

from oracle.vllm_site import RENAMED

SAME, MENDED, DAMAGED = "same", "mended", "damaged metadata"
OURS_ALONE = {"skipped", "loaded", "warning"}  # kinds of lines that vLLM has none of
_NEW = {new: old for old, new in RENAMED.items()}
Answer = list[Any]  # outcome, events, log


def judge(jobs: tuple[Any, Any], theirs: list[Answer], mended: list[Answer], ours: list[Answer]) -> list[str | Answer]:
    """For each operation SAME, MENDED or DAMAGED, or what differs without an explanation."""
    job = jobs[0]
    verdicts: list[str | Answer] = []
    asked: set[str] = set()
    for number, (operation, *_) in enumerate(job["operations"]):
        again, one = operation in asked, ours[number]
        asked.add(operation)
        if _alike(operation, theirs[number], one):
            verdicts.append(SAME)
        elif _cannot_list(theirs[number]):
            bears = _bears(operation, one) and _has_the_sound(job, job["operations"][number], one)
            verdicts.append(DAMAGED if bears else [operation, theirs[number], one])
        elif operation == "general":
            verdicts.append(_general(job, mended[number], one, again=again))
        elif _alike(operation, mended[number], one, set(job["faulty"]) if operation == "endpoint" else set()):
            verdicts.append(MENDED)
        else:
            verdicts.append([operation, theirs[number], mended[number], one])
    return verdicts


def _alike(operation: str, theirs: Answer, ours: Answer, faulty: set[str] | frozenset[str] = frozenset()) -> bool:
    return (
        _outcome(operation, theirs[0], ours[0])
        and _events(operation, theirs, ours, faulty)
        and _log(operation, theirs, ours)
    )


def _bears(operation: str, ours: Answer) -> bool:
    """Whether ours goes on where the interpreter cannot list: several platforms or a broken processor stop it still."""
    if ours[0][0] == "ok":
        return True
    return operation in {"platform", "logits"} and "RuntimeError" in ours[0][1]


def _has_the_sound(job: Any, operation: list[Any], ours: Answer) -> bool:
    """Whether a group that was listed in spite of damage has the plugins of the sound packages: those are available."""
    if operation[0] != "group":
        return True
    available = {name for _, kind, name in ours[2] if kind == "available"}
    projects = [_bare(project) for project in job["projects"]]
    # of two copies of a project one is hidden
    sound = (groups for project, groups in job["sound"] if projects.count(_bare(project)) == 1)
    return all(set(groups.get(operation[1], ())) <= available for groups in sound)


def _bare(project: str) -> str:
    return project.lower().replace("_", "").replace("-", "")


def _outcome(operation: str, theirs: Any, ours: Any) -> bool:
    if theirs[0] == "raises":  # the texts are our own
        return bool(ours[0] == "raises" and theirs[1][0] in ours[1])
    if operation == "group" and isinstance(theirs[1], list):
        theirs = ["ok", [[_NEW.get(name, name), found] for name, found in theirs[1]]]
    return bool(theirs == ours)


def _events(operation: str, theirs: Answer, ours: Answer, faulty: set[str] | frozenset[str]) -> bool:
    events = [event for event in theirs[1] if not (event[0] == "call" and event[1] in faulty)]
    if operation == "platform" and theirs[0][0] == "ok" and events and events[-1] in events[:-1]:
        events = events[:-1]  # the winner is asked a second time
    return bool(events == ours[1])


def _log(operation: str, theirs: Answer, ours: Answer) -> bool:
    if operation == "logits":  # another logger of theirs, with other lines
        return True
    both = [
        [
            [level, kind, _NEW.get(name, name)]
            for level, kind, name in answer[2]
            if kind not in OURS_ALONE and name != ""
        ]
        for answer in (theirs, ours)
    ]
    return both[0] == both[1]


def _general(job: Any, mended: Answer, ours: Answer, *, again: bool) -> str | Answer:
    """Ours calls everything, once if it succeeds, and tries again what failed; vLLM's stops, and never tries again."""
    faulty = set(job["faulty"])
    if ours[0] != ["ok", None]:
        return ["general", mended, ours]
    sound = [event for event in ours[1] if event[1] not in faulty]
    if again:
        return MENDED if not sound else ["general again", mended, ours]
    wanted = [event for event in mended[1] if event[1] not in faulty]
    called = {name for what, name in ours[1] if what == "call"}
    missed = [name for what, name in mended[1] if what == "call" and name not in called and name not in faulty]
    return MENDED if sound == wanted and not missed else ["general", mended, ours]


def _cannot_list(theirs: Answer) -> bool:
    """Whether the interpreter itself raised while it listed, before vLLM said a word."""
    return theirs[0][0] == "raises" and not theirs[1] and not theirs[2]
