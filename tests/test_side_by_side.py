"""`tools/side_by_side.py`: jobs overlap, outputs do not mix, failures are shown last, a signal ends everything."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from interpreters import clean_environment

pytestmark = pytest.mark.every_python  # once is enough: `make test` runs it, and no user does

TOOLS = Path(__file__).resolve().parent.parent / "tools"

PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, {tools!r})
import side_by_side
from side_by_side import Job

HERE = Path({here!r})
WAIT = '''
import pathlib, sys, time
def wait_for(name):
    limit = time.monotonic() + 30
    while not pathlib.Path(name).exists():
        assert time.monotonic() < limit, name + " never came"
        time.sleep(0.01)
'''

def python(text):
    return (sys.executable, "-c", WAIT + text)

def job(name, *texts):
    return Job(name, HERE / "logs" / (name + ".txt"), lambda: map(python, texts))

def run(*jobs, lanes=2):
    side_by_side.run(jobs, lanes, HERE)
    print("statuses", *(job.status for job in jobs))
"""


def start(here: Path, program: str) -> subprocess.Popen[str]:
    text = PROGRAM.format(tools=str(TOOLS), here=str(here)) + textwrap.dedent(program)
    return subprocess.Popen(
        [sys.executable, "-B", "-c", text], env=clean_environment(), stdout=subprocess.PIPE, text=True, cwd=here
    )


def said(here: Path, program: str) -> list[str]:
    process = start(here, program)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    return output.splitlines()


def test_jobs_run_at_the_same_time_and_their_outputs_do_not_mix(tmp_path: Path) -> None:
    lines = said(
        tmp_path,
        """
        def text(mine, other):
            return (f"print('{mine} 1', flush=True); open('{mine}', 'w').close(); wait_for('{other}');"
                    f"print('{mine} 2', file=sys.stderr)")
        run(job("a", text("a", "b")), job("b", text("b", "a")))
        """,
    )
    for name in "ab":
        place = lines.index(f"{name} 1")
        assert lines[place - 1].startswith(f"== {name}: passed in ")
        assert lines[place + 1] == f"{name} 2"
    assert lines[-1] == "statuses 0 0"


def test_no_more_jobs_run_than_there_are_lanes(tmp_path: Path) -> None:
    text = "import os; os.mkdir('taken'); time.sleep(0.2); os.rmdir('taken')"
    lines = said(tmp_path, f"run(*(job(name, {text!r}) for name in 'abc'), lanes=1)")
    assert lines[-1] == "statuses 0 0 0"
    lines = said(tmp_path, f"run(job('a', {text!r}), job('b', 'wait_for(\"taken\");' + {text!r}), lanes=2)")
    assert lines[-1] == "statuses 0 1", "the folder shows an overlap where there is one"


def test_what_failed_is_shown_last_and_goes_no_further(tmp_path: Path) -> None:
    lines = said(
        tmp_path,
        """
        def commands():
            yield python("print('first of bad')")
            yield python("print('bad breaks'); open('broken', 'w').close(); sys.exit(3)")
            print("asked for more")
        bad = Job("bad", HERE / "bad.txt", commands)
        run(bad, job("good", "wait_for('broken'); print('good is done')"))
        """,
    )
    assert "asked for more" not in lines
    assert "== bad: FAILED, its output follows at the end" in lines
    assert lines.index("good is done") < lines.index("first of bad") < lines.index("bad breaks")
    assert any(line.startswith("== bad: FAILED (3) in ") for line in lines)
    assert lines[-1] == "statuses 3 0"


STUCK = """
import os, signal, subprocess
child = subprocess.Popen(["sleep", "300"])
{prepare}
print(os.getpid(), child.pid, flush=True)
try:
    open({name!r}, "w").close()
    time.sleep(300)
except KeyboardInterrupt:
    print("cleared up", flush=True)
"""


def interrupted(here: Path, prepare: str, number: int, patience: float = 20) -> tuple[str, list[str]]:
    """Send a signal to the program alone once two jobs are at work; give what it says and what each job said."""
    texts = {name: STUCK.format(prepare=prepare, name=name) for name in ("a", "b")}
    process = start(
        here,
        f"""
        side_by_side.PATIENCE = {patience}
        try:
            run(*(job(name, text, "print('goes on')") for name, text in {texts!r}.items()), job("c", "print('c')"))
        except side_by_side.Interrupted as interrupted:
            print("interrupted by", interrupted, interrupted.signal)
        """,
    )
    try:
        limit = time.monotonic() + 30
        while not all((here / name).exists() for name in texts):
            assert time.monotonic() < limit
            assert process.poll() is None
            time.sleep(0.01)
        pids = [int(word) for name in texts for word in (here / "logs" / f"{name}.txt").read_text("utf-8").split()]
        assert len(pids) == 4
        assert not any(map(gone, pids)), "a look sees those that run"
        process.send_signal(number)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    return output, [(here / "logs" / f"{name}.txt").read_text("utf-8") for name in texts]


def gone(pid: int) -> bool:
    """Whether a process has ended; whoever adopted it may not have waited for it yet."""
    try:
        return ") Z" in Path(f"/proc/{pid}/stat").read_text("utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return True


def all_gone(text: str) -> bool:
    """Whether the processes that the first line of a job names end soon."""
    limit = time.monotonic() + 10
    while not all(gone(int(word)) for word in text.splitlines()[0].split()):
        if time.monotonic() > limit:
            return False
        time.sleep(0.01)
    return True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda one: one.name)
def test_a_signal_ends_every_job_and_lets_it_clear_up(number: signal.Signals, tmp_path: Path) -> None:
    output, logs = interrupted(tmp_path, "", number)
    assert output.splitlines()[-1] == f"interrupted by {number.name} {number.value}"
    assert "== c" not in output, "what waited for a lane does not begin"
    for log in logs:
        assert log.splitlines()[1:] == ["cleared up"]
        assert all_gone(log)


def test_what_does_not_end_by_itself_is_killed(tmp_path: Path) -> None:
    output, logs = interrupted(tmp_path, "signal.signal(signal.SIGINT, signal.SIG_IGN)", signal.SIGINT, 0.3)
    assert output.splitlines()[-1] == f"interrupted by SIGINT {signal.SIGINT.value}"
    for log in logs:
        assert len(log.splitlines()) == 1
        assert all_gone(log)


def test_what_a_job_leaves_behind_is_killed_though_it_has_ended_itself(tmp_path: Path) -> None:
    ignore = "preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)"
    output, logs = interrupted(tmp_path, f"child = subprocess.Popen(['sleep', '300'], {ignore})", signal.SIGINT)
    assert output.splitlines()[-1] == f"interrupted by SIGINT {signal.SIGINT.value}"
    for log in logs:
        assert log.splitlines()[-1] == "cleared up"
        assert all_gone(log)


def test_a_job_that_ends_by_itself_while_a_signal_ends_all_is_no_fault(tmp_path: Path) -> None:
    lines = said(
        tmp_path,
        """
        import os, signal, time
        send = os.killpg
        def late(pid, number):
            open("go", "w").close()
            limit = time.monotonic() + 2  # where the loop itself takes leave of it, it stays
            while Path(f"/proc/{pid}").exists() and time.monotonic() < limit:
                time.sleep(0.01)
            send(pid, number)
        os.killpg = late
        try:
            run(job("a", f"import os, signal; os.kill({os.getpid()}, signal.SIGINT); wait_for('go')"))
        except side_by_side.Interrupted as interrupted:
            print("interrupted by", interrupted)
        """,
    )
    assert lines[-1] == "interrupted by SIGINT"
