"""Jobs run side by side: the output of each goes to a file, and is shown in one piece when the job ends.

In: jobs, each of them commands that follow one another. Out: their exit statuses. Jobs that failed are shown last.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

PATIENCE = 20.0
"""Seconds that a job may take to end itself when we are interrupted."""

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Words = Sequence[str | Path]


@dataclass
class Job:
    """What one lane works at.

    Attributes:
        title: What is said of it.
        log: The file for its output.
        commands: Gives the commands. The next one is asked for when the one before has succeeded.
        environment: The variables of its commands; None for those of this process.
        status: The exit status of its last command, once it has ended.
        seconds: How long it took.
    """

    title: str
    log: Path
    commands: Callable[[], Iterable[Words]]
    environment: Mapping[str, str] | None = None
    status: int | None = field(default=None, init=False)
    seconds: float = field(default=0.0, init=False)


class Interrupted(Exception):  # noqa: N818  # no fault
    """A signal came, and every job was ended.

    Attributes:
        signal: Its number.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.signal = number


def run(jobs: Sequence[Job], lanes: int, folder: Path) -> None:
    """Run jobs, so many at a time, and show the output of each; `status` and `seconds` of each are set.

    Args:
        jobs: They begin in this order.
        lanes: How many may run at once.
        folder: Where their commands run.

    Raises:
        Interrupted: One of `SIGNALS` came. No job runs any more.
    """
    asyncio.run(_run(jobs, lanes, folder))


async def _run(jobs: Sequence[Job], lanes: int, folder: Path) -> None:
    loop, whole = asyncio.get_running_loop(), asyncio.current_task()
    assert whole is not None
    came: list[int] = []

    def stop(number: int) -> None:
        if not came:  # the jobs are being ended already
            whole.cancel()
        came.append(number)

    for number in SIGNALS:
        loop.add_signal_handler(number, stop, number)
    free = asyncio.Semaphore(lanes)
    try:
        async with asyncio.TaskGroup() as group:
            for job in jobs:
                group.create_task(_work(job, free, folder))
    except asyncio.CancelledError:
        raise Interrupted(came[0]) from None
    for job in jobs:
        if job.status:
            _show(job)


async def _work(job: Job, free: asyncio.Semaphore, folder: Path) -> None:
    async with free:
        print(f"== {job.title}: begins, its output is in {job.log}", flush=True)
        began = time.monotonic()
        job.log.parent.mkdir(parents=True, exist_ok=True)
        with job.log.open("wb") as log:
            status = 0
            for words in job.commands():
                status = await _command(words, job.environment, log.fileno(), folder)
                if status:
                    break
        job.seconds, job.status = time.monotonic() - began, status
        if status:
            print(f"== {job.title}: FAILED, its output follows at the end", flush=True)
        else:
            _show(job)


async def _command(words: Words, environment: Mapping[str, str] | None, log: int, folder: Path) -> int:
    # a session of its own: Ctrl-C reaches it through us, once, together with all that it has started
    process = await asyncio.create_subprocess_exec(
        *words,
        cwd=folder,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=log,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    ended = asyncio.ensure_future(process.wait())
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        for number in (signal.SIGINT, signal.SIGKILL):  # the second also for what it has left behind
            with suppress(ProcessLookupError):  # there is nothing left
                os.killpg(process.pid, number)
            await asyncio.wait({ended}, timeout=PATIENCE)
        raise


def _show(job: Job) -> None:
    outcome = f"FAILED ({job.status})" if job.status else "passed"
    print(f"\n== {job.title}: {outcome} in {job.seconds:.0f} s", flush=True)
    sys.stdout.write(job.log.read_text("utf-8", errors="replace"))
    sys.stdout.flush()
