"""All platforms, one `Probe` each: files first, then drivers in processes of their own, then a judge for each.

Nothing of a driver comes into this process, and nothing of it is changed. What is found is never an exception.
"""

from __future__ import annotations

import os
import sys
import time

from vplug_rs import env
from vplug_rs.platforms import passive
from vplug_rs.platforms.judges import codes, cpu, cuda, others, rocm, tpu, xpu
from vplug_rs.platforms.judges.context import AMDSMI, LIBCUDA, NVML, ORDER, OTHER_NVML, Context
from vplug_rs.platforms.passive import encodable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from vplug_rs.platforms.isolated import Job
    from vplug_rs.platforms.model import Probe
    from vplug_rs.platforms.passive import Seen

SECONDS = 10.0
"""What a driver may take where nothing else is said. Some take 25 s; that is then unknown, and never absent."""

DRIVERS = frozenset({"cuda"})
"""The platforms whose drivers are asked, in processes of their own, where nobody names a library."""

MOST_SECONDS = 590.0
"""More than that no driver gets: a child ends by itself after ten minutes, lest it outlive an asker that was killed."""

_JUDGES = {"tpu": tpu.judge, "cuda": cuda.judge, "rocm": rocm.judge, "xpu": xpu.judge, "cpu": cpu.judge}
_ASKED = {"cuda": (NVML, LIBCUDA), "rocm": (AMDSMI,)}


def probe(  # noqa: PLR0913  # keywords of a public function
    root: str | os.PathLike[str] = "/",
    *,
    environment: Mapping[str, str] | None = None,
    path: Iterable[Any] | None = None,
    timeout: float | None = None,
    active: bool | None = None,
    both: bool = False,
    ask: Iterable[str] = frozenset(),
) -> list[Probe]:
    """What is known of each platform, in vLLM's order, then of those that vLLM does not bring along.

    Nothing is kept: each call looks and asks anew, and threads that call it at the same time start a process each for
    every driver. Who wants one answer for all asks `get_platform()`.

    Args:
        root: The folder that stands for "/", also for the folders in LD_LIBRARY_PATH that are looked into.
        environment: The variables, also those of the processes that ask drivers; by default this process's.
        path: Where modules and distributions are looked for; by default `sys.path`.
        timeout: Seconds that drivers may take altogether, at most `MOST_SECONDS`; 0 asks none. By default
            VPLUG_PROBE_TIMEOUT, or `SECONDS`.
        active: Whether drivers are asked; by default where the root is "/".
        both: Ask NVML in both ways and compare.
        ask: Which are asked besides NVML: "amdsmi", AMD's library.
    """
    root = encodable(os.fspath(root))
    variables = dict(os.environ if environment is None else environment)
    seconds = env.seconds(env.PROBE_TIMEOUT, SECONDS, variables) if timeout is None else timeout
    seconds = min(seconds, MOST_SECONDS)
    if active is None:
        active = _is_here(root)
    seen = passive.look(root, variables)
    context = _context(root, seen, variables, path, seconds)
    spent: dict[str, float] = {}
    if active and seconds > 0:
        asking = _Asking(context, None if environment is None else variables, both=both, ask=frozenset(ask))
        asking.run(seen)
        spent = asking.ms
    return [_judged(platform, seen, context, spent) for platform in ORDER]


def _is_here(root: str) -> bool:
    """Whether a root is this machine itself; one that is relative is another, wherever this process stands."""
    return os.path.normpath(root) in {"/", "//"}


def _context(
    root: str, seen: Seen, variables: Mapping[str, str], path: Iterable[Any] | None, seconds: float
) -> Context:
    here = _is_here(root)
    return Context(
        variables,
        sys.path if path is None else path,
        meta_path=sys.meta_path if path is None else (),
        facts=seen.facts,
        seconds=seconds,
        # another root is a Linux host's, whatever this one is
        system=sys.platform if here else "linux",
        machine=os.uname().machine if here else "",
    )


def _judged(platform: str, seen: Seen, context: Context, spent: Mapping[str, float]) -> Probe:
    began = time.perf_counter()
    evidence, devices = seen.evidence(platform), seen.devices(platform)
    judge = _JUDGES.get(platform)
    if judge is not None:
        found = judge(evidence, devices, context)
    else:
        found = others.judge(platform, evidence, devices, context)
    # the pass is shared by all; a driver's time is its platform's
    asked = sum(spent.get(who, 0.0) for who in _ASKED.get(platform, ()))
    found.ms = round(seen.ms + asked + (time.perf_counter() - began) * 1000, 3)
    return found


class _Asking:
    """The drivers that are asked, all at once, under one deadline."""

    def __init__(
        self, context: Context, environment: dict[str, str] | None, *, both: bool, ask: frozenset[str]
    ) -> None:
        self.context, self.environment, self.both, self.ask = context, environment, both, ask
        self.deadline = time.monotonic() + context.seconds
        self.ms: dict[str, float] = {}

    def run(self, seen: Seen) -> None:
        """Ask those that something speaks for, or that were named; the answers go into the context."""
        evidence = seen.evidence("cuda")
        jobs: dict[str, tuple[Job, Callable[[Any], Any]]] = {}
        vllm = self.context.vllm if cuda.needs_nvml(evidence) else None
        if cuda.needs_nvml(evidence) and not (vllm is not None and vllm.is_cpu):
            jobs |= self._nvml_jobs(seen)
        folder = self._amdsmi_folder()
        if folder is not None:
            from vplug_rs.platforms import amdsmi

            jobs[AMDSMI] = amdsmi.job(folder, self.environment), amdsmi.read
        if not jobs:  # nothing more is loaded where nobody is asked
            return
        self._take(jobs)
        answer = self.context.answers.get(NVML)
        left = self.deadline - time.monotonic()
        if answer is not None and left > 0 and codes.wants_second_opinion(evidence, answer):
            from vplug_rs.platforms import nvml

            self._take({LIBCUDA: (nvml.second_opinion_job(self.environment), nvml.read_second_opinion)})

    def _nvml_jobs(self, seen: Seen) -> dict[str, tuple[Job, Callable[[Any], Any]]]:
        from vplug_rs.platforms import nvml

        file = self.context.pynvml[0]
        devices = seen.devices("cuda")
        # one GPU that shares the host's memory has as much as the host; of several nobody knows which
        shared = len(devices) == 1 and devices[0].integrated is True
        names = {NVML: nvml.PYNVML, OTHER_NVML: nvml.NATIVE} if self.both and file is not None else {NVML: nvml.AUTO}
        return {
            who: (nvml.job(name, file, self.environment, integrated=shared), nvml.read) for who, name in names.items()
        }

    def _amdsmi_folder(self) -> str | None:
        found = self.context.find("amdsmi") if "amdsmi" in self.ask else None
        return None if found is None else found.path

    def _take(self, jobs: Mapping[str, tuple[Job, Callable[[Any], Any]]]) -> None:
        from vplug_rs.platforms import isolated

        left = max(0.0, round(self.deadline - time.monotonic(), 3))  # people read it
        ends: Sequence[Any] = isolated.run([job for job, _ in jobs.values()], left)
        for (who, (_, read)), end in zip(jobs.items(), ends, strict=True):
            self.context.answers[who] = read(end)
            self.context.ends[who] = end.how
            self.ms[who] = end.seconds * 1000
            if who == OTHER_NVML:  # one that dies early does not come to say it
                self.context.answers[who].backend = "native"
        self._prefer()

    def _prefer(self) -> None:
        """Of two answers of NVML, pynvml's counts, unless pynvml itself is broken or too new for the library."""
        answers, ends = self.context.answers, self.context.ends
        first, other = answers.get(NVML), answers.get(OTHER_NVML)
        if first is None or other is None or other.outcome != "answered":
            return
        broken = first.outcome == "unknown" and ends[NVML] == "exited"
        if broken or first.code == codes.NO_FUNCTION:
            answers[NVML], answers[OTHER_NVML] = other, first
            ends[NVML], ends[OTHER_NVML] = ends[OTHER_NVML], ends[NVML]
