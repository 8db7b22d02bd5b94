"""Programs in processes of their own: every way to end, in time, with nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vplug_rs.platforms import isolated
from vplug_rs.testing import unkillable

ROOT = Path(isolated.__file__).parents[2]
PRELUDE = "import json, os, signal, subprocess, sys, time\ndef say(**e): print(json.dumps(e), flush=True)\n"


def job(code: str, *words: str, environment: dict[str, str] | None = None) -> isolated.Job:
    """Give a job that runs some Python."""
    code = PRELUDE + textwrap.dedent(code)
    return isolated.Job("the child", [sys.executable, "-I", "-S", "-c", code, *words], environment)


def end(code: str, *words: str, seconds: float = 20.0) -> isolated.End:
    """Run one job to its end."""
    (found,) = isolated.run([job(code, *words)], seconds)
    return found


def descriptors() -> set[str]:
    """Give what this process has open."""
    return set(os.listdir("/proc/self/fd"))


def holes() -> set[int]:
    """Give the numbers below the highest descriptor that are free."""
    used = {int(name) for name in descriptors()}
    return {number for number in range(max(used)) if number not in used}


def is_alive(pid: int) -> bool:
    """Whether a process of this number runs, and is no zombie."""
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text("utf-8")
    except OSError:
        return False


def wait_until_gone(pid: int) -> None:
    """Wait for a process that has been killed."""
    limit = time.monotonic() + 5
    while is_alive(pid):
        assert time.monotonic() < limit, f"process {pid} is still there"
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def nothing_stays() -> object:
    """No descriptor, no thread and no child is left, whatever the test did."""
    before, threads = descriptors(), threading.active_count()
    yield
    assert descriptors() == before
    assert threading.active_count() == threads
    assert isolated.reap() == []


def test_a_program_answers() -> None:
    found = end("say(a=1); say(b=[2]); print('for people', file=sys.stderr)")
    assert (found.how, found.code, found.events) == ("exited", 0, [{"a": 1}, {"b": [2]}])
    assert (found.stderr, found.abandoned) == ("for people\n", False)
    assert found.detail == "the child ended with exit status 0."
    assert 0 < found.seconds < 20


def test_an_exit_status_and_a_signal_are_told() -> None:
    assert (end("sys.exit(3)").how, end("sys.exit(3)").code) == ("exited", 3)
    crashed = end("say(call='x'); os.kill(os.getpid(), signal.SIGSEGV)")
    assert (crashed.how, crashed.code, crashed.events) == ("signal", signal.SIGSEGV, [{"call": "x"}])
    assert "SIGSEGV" in crashed.detail
    odd = end("os.kill(os.getpid(), 60)")
    assert (odd.how, odd.code, odd.detail) == ("signal", 60, "the child was ended by signal 60.")


def test_jobs_run_at_the_same_time_and_answer_in_order() -> None:
    jobs = [job("say(began=time.monotonic()); time.sleep(0.5); say(ended=time.monotonic())") for _ in range(4)]
    ends = isolated.run(jobs, 20)
    began = [one.events[0]["began"] for one in ends]
    ended = [one.events[1]["ended"] for one in ends]
    assert max(began) < min(ended), "their times overlap"
    ends = isolated.run([job("time.sleep(0.3); say(n=1)"), job("say(n=2)"), job("sys.exit(3)")], 20)
    assert [one.events for one in ends] == [[{"n": 1}], [{"n": 2}], []]
    assert isolated.run([], 1) == []


def test_one_deadline_for_all_and_the_quick_keep_their_answers() -> None:
    began = time.monotonic()
    slow, quick = isolated.run([job("say(call='init'); time.sleep(60)"), job("say(ok=1)")], 0.7)
    assert time.monotonic() - began < 1.7
    assert (slow.how, slow.events, slow.abandoned) == ("timeout", [{"call": "init"}], False)
    assert slow.detail == "the child did not answer within 0.7 s and was killed."
    assert (quick.how, quick.events) == ("exited", [{"ok": 1}])


@pytest.mark.parametrize(("seconds", "told"), [(0.0, "0.001"), (0.001, "0.001"), (0.004, "0.004")])
def test_a_limit_that_is_too_short_to_start_anything_is_told_as_that(seconds: float, told: str) -> None:
    found = end("say(n=1)", seconds=seconds)
    assert (found.how, found.events) == ("timeout", [])
    assert found.detail == (
        f"the child was killed before it could begin: {told} s are too short to start a process at all."
    )


def test_a_program_that_ignores_signals_is_killed_all_the_same() -> None:
    found = end("signal.signal(signal.SIGTERM, signal.SIG_IGN); say(pid=os.getpid()); time.sleep(60)", seconds=1.5)
    assert found.how == "timeout"
    wait_until_gone(found.events[0]["pid"])


def test_no_time_at_all_is_a_time_out() -> None:
    began = time.monotonic()
    assert end("time.sleep(60)", seconds=0).how == "timeout"
    assert time.monotonic() - began < 1


@pytest.mark.parametrize(
    ("code", "events"),
    [
        ("print('hello')", []),
        ("sys.stdout.write('{\"count\": 2')", []),
        ("say(a=1); print('[1]'); say(a=2)", [{"a": 1}, {"a": 2}]),
        ("os.write(1, b'\\xff\\x00\\n')", []),
        ("print('[' * 100_000)", []),
        ("print('9' * 100_000)", []),
    ],
    ids=["text", "half", "a list", "bytes", "nested", "a long number"],
)
def test_what_is_no_object_is_garbage(code: str, events: list[object]) -> None:
    found = end(code)
    assert (found.how, found.events) == ("garbage", events)
    assert "no answer" in found.detail
    assert len(found.detail) < 400


def test_garbage_before_a_failure_is_the_lesser_news() -> None:
    found = end("print('x', flush=True); sys.exit(1)")
    assert (found.how, found.code) == ("exited", 1)


def test_stderr_alone_is_an_end_without_events() -> None:
    found = end("sys.stderr.write('x' * 100_000 + 'the last words'); sys.exit(0)")
    assert (found.how, found.code, found.events) == ("exited", 0, [])
    assert len(found.stderr) == isolated.TAIL
    assert found.stderr.endswith("xthe last words")


def test_ten_megabytes_are_stopped() -> None:
    found = end("say(a=1)\nfor _ in range(1000): sys.stdout.write('x' * 9_999 + '\\n')\ntime.sleep(60)")
    assert (found.how, found.events) == ("flood", [{"a": 1}])
    assert found.seconds < 10
    endless = "while True: os.write({}, b'y' * 65536)"
    assert end(endless.format(1)).how == "flood"
    assert end(endless.format(2), seconds=0.5).how == "timeout", "stderr is only kept short"


def test_a_program_that_closes_its_pipes_and_stays_is_bounded() -> None:
    began = time.monotonic()
    found = end("say(a=1); os.close(1); os.close(2); time.sleep(60)", seconds=0.6)
    assert time.monotonic() - began < 1.6
    assert (found.how, found.events) == ("timeout", [{"a": 1}])
    later = end("say(a=1); os.close(1); os.close(2); time.sleep(0.3); os._exit(4)")
    assert (later.how, later.code) == ("exited", 4)


@pytest.mark.parametrize("away", ["False", "True"], ids=["in its group", "in a session of its own"])
def test_a_descendant_that_holds_the_pipes_is_not_waited_for(away: str) -> None:
    code = f"""
    p = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(30)"], start_new_session={away})
    say(pid=p.pid)
    os._exit(0)
    """
    began = time.monotonic()
    found = end(code)
    assert time.monotonic() - began < 5
    assert (found.how, found.code) == ("exited", 0)
    descendant = found.events[0]["pid"]
    if away == "False":
        wait_until_gone(descendant)
    else:
        os.kill(descendant, signal.SIGKILL)


def test_a_time_out_reaches_descendants() -> None:
    code = """
    p = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"])
    say(pid=p.pid)
    time.sleep(60)
    """
    found = end(code, seconds=1)
    assert found.how == "timeout"
    wait_until_gone(found.events[0]["pid"])


@pytest.mark.parametrize(
    ("word", "said"), [("", "is empty"), ("/", "denied"), ("/none/such", "No such file"), ("a\0b", "null byte")]
)
def test_what_cannot_be_started_is_told(word: str, said: str) -> None:
    refused, other = isolated.run([isolated.Job("the child", [word, "x"]), job("say(ok=1)")], 20)
    assert (refused.how, refused.code, refused.events, refused.abandoned) == ("not started", None, [], False)
    assert said in refused.detail
    assert other.events == [{"ok": 1}], "the others run"


def test_a_file_that_may_not_be_run_is_told(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\n", "utf-8")
    (found,) = isolated.run([isolated.Job("the child", [str(program)])], 20)
    assert (found.how, "denied" in found.detail) == ("not started", True)


def test_descriptors_that_run_out_are_told() -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, descriptors())) + 1, hard))
        taken.extend(os.dup(2) for _ in range(len(holes())))
        (found,) = isolated.run([job("say(ok=1)")], 20)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in taken:
            os.close(descriptor)
    assert (found.how, "Too many open files" in found.detail) == ("not started", True)


def test_the_child_gets_its_environment_no_stdin_and_no_descriptor() -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    try:
        code = """
        say(env=dict(os.environ), stdin=sys.stdin.read(), fds=os.listdir("/proc/self/fd"),
            own=os.getsid(0) == os.getpid() == os.getpgid(0))
        """
        (found,) = isolated.run([job(code, environment={"A": "b"})], 20)
    finally:
        os.close(reading)
        os.close(writing)
    said = found.events[0]
    assert {name: said["env"][name] for name in ("A",)} == {"A": "b"}
    assert "PATH" not in said["env"]
    assert (said["stdin"], said["own"]) == ("", True)
    assert len(said["fds"]) == 4, "its three, and the one that lists them"


def test_it_works_in_threads_all_at_once() -> None:
    found: list[list[object]] = []

    def work(number: int) -> None:
        found.append([number, isolated.run([job("say(n=int(sys.argv[1]))", str(number))], 30)[0].events[0]["n"]])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [[number, number] for number in range(8)]


def test_an_answer_counts_where_sigchld_is_ignored() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        done, failed, slow = isolated.run([job("say(a=1)"), job("sys.exit(3)"), job("time.sleep(60)")], 1.5)
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert (done.how, done.code, done.events) == ("exited", None, [{"a": 1}])
    assert "not known" in done.detail
    assert (failed.how, failed.code) == ("exited", None), "better unknown than 0"
    assert (slow.how, slow.abandoned) == ("timeout", False)


def test_a_host_that_waits_for_every_child_does_not_disturb() -> None:
    def collect(*_: object) -> None:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return

    before = signal.signal(signal.SIGCHLD, collect)
    try:
        found = end("say(a=1); time.sleep(0.2)")
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert (found.how, found.events) == ("exited", [{"a": 1}])
    assert found.code in {0, None}


INTERRUPTED = """
import json, sys, threading
sys.path.insert(0, sys.argv[1])
from vplug_rs.platforms import isolated
code = "import sys, time; open(sys.argv[1], 'w'); time.sleep(60)"
jobs = [isolated.Job("child", [sys.executable, "-I", "-S", "-c", code, f"{sys.argv[2]}/{n}"]) for n in range(3)]
children = []
start = isolated._Child.start
def started(self):
    start(self)
    children.append(self.process.pid)
isolated._Child.start = started
try:
    isolated.run(jobs, 50)
except KeyboardInterrupt:
    print(json.dumps(children))
"""


def test_an_interrupt_leaves_no_child(tmp_path: Path) -> None:
    host = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", INTERRUPTED, str(ROOT), str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    limit = time.monotonic() + 30
    while len(os.listdir(tmp_path)) < 3:
        assert time.monotonic() < limit
        time.sleep(0.02)
    began = time.monotonic()
    host.send_signal(signal.SIGINT)
    out, err = host.communicate(timeout=20)
    assert time.monotonic() - began < 5
    assert err == ""
    children = json.loads(out)
    assert len(children) == 3
    assert not [pid for pid in children if is_alive(pid)]


def test_an_exception_at_any_step_leaves_no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    start, read = isolated._Child.start, isolated._Child.read

    def second_start_fails(child: isolated._Child) -> None:
        if started:
            raise KeyboardInterrupt
        start(child)
        started.append(child.process.pid)

    with monkeypatch.context() as patch:
        patch.setattr(isolated._Child, "start", second_start_fails)
        with pytest.raises(KeyboardInterrupt):
            isolated.run([job("time.sleep(60)"), job("time.sleep(60)")], 30)

    def reading_fails(child: isolated._Child, stream: object) -> None:
        read(child, stream)
        if child.killed is None:
            started.append(child.process.pid)
            raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(isolated._Child, "read", reading_fails)
        with pytest.raises(MemoryError):
            isolated.run([job("say(a=1); time.sleep(60)")], 30)
    assert len(started) == 2
    assert not [pid for pid in started if is_alive(pid)]


def test_an_interrupt_between_start_and_return_loses_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    genuine = subprocess.Popen._execute_child  # type: ignore[attr-defined]

    def execute(self: subprocess.Popen[bytes], *words: object) -> None:
        genuine(self, *words)
        started.append(self.pid)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "_execute_child", execute)
    with pytest.raises(KeyboardInterrupt):
        isolated.run([job("time.sleep(60)")], 30)
    assert not is_alive(started[0])


def test_an_interrupt_while_it_is_started_loses_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    genuine = subprocess._fork_exec  # type: ignore[attr-defined]

    def fork_exec(*words: object) -> int:
        # by extend, so that the number is kept before any interrupt is looked at
        started.extend(map(genuine, *([word] for word in words)))
        signal.raise_signal(signal.SIGINT)
        return started[-1]

    monkeypatch.setattr(subprocess, "_fork_exec", fork_exec)
    with pytest.raises(KeyboardInterrupt):
        isolated.run([job("time.sleep(60)")] * 3, 30)
    assert started
    assert not [pid for pid in started if os.path.exists(f"/proc/{pid}")], "not even a zombie"


def test_an_interrupt_as_starting_is_stopped_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    stop: Callable[[object], None] = isolated._stop_starting  # type: ignore[assignment]  # what acquires is enough
    attend = isolated._attend
    interrupts: list[KeyboardInterrupt] = []

    class Interrupted:
        def __init__(self, lock: threading.RLock) -> None:
            self.lock = lock

        def acquire(self) -> bool:
            assert self.lock.acquire(timeout=5), "it waits for itself"
            if not interrupts:
                interrupts.append(KeyboardInterrupt())
                raise interrupts[0]  # taken, and not yet known to be
            return True

    def attending_fails_once(*words: Any) -> None:
        monkeypatch.setattr(isolated, "_attend", attend)
        raise MemoryError

    monkeypatch.setattr(isolated, "_stop_starting", lambda lock: stop(Interrupted(lock)))
    monkeypatch.setattr(isolated, "_attend", attending_fails_once)
    with pytest.raises(MemoryError):
        isolated.run([job("time.sleep(60)")], 30)
    assert interrupts


def test_an_interrupt_as_it_is_taken_leave_of_leaves_no_zombie(monkeypatch: pytest.MonkeyPatch) -> None:
    children: list[int] = []

    def interrupted(child: isolated._Child) -> None:
        children.append(child.process.pid)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(isolated._Child, "_take_leave", interrupted)
        with pytest.raises(KeyboardInterrupt):
            isolated.run([job("say(ok=1)")], 30)
    assert isolated.reap() == []
    assert not os.path.exists(f"/proc/{children[0]}")


def test_where_no_thread_can_be_started_it_works_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", none)
        found = end("say(ok=1)")
    assert found.events == [{"ok": 1}]


STUCK = "say(pid=os.getpid()); open(sys.argv[1], 'w')"


def test_a_program_that_cannot_be_killed_is_left_behind(tmp_path: Path) -> None:
    if (reason := unkillable.why_not()) is not None:
        pytest.skip(reason)
    with unkillable.frozen_folder(str(tmp_path)) as folder:
        began = time.monotonic()
        stuck, quick = isolated.run([job(STUCK, f"{folder}/file"), job("say(ok=1)")], 0.5)
        assert time.monotonic() - began < 1.5
        assert (stuck.how, stuck.abandoned, quick.how) == ("timeout", True, "exited")
        pid = stuck.events[0]["pid"]
        assert f"process {pid} could not be killed" in stuck.detail
        assert isolated.reap() == [pid]
        assert end("say(ok=1)").how == "exited", "later calls are not held up"
    limit = time.monotonic() + 10
    while isolated.reap():  # thawed, it dies, and the next look takes leave of it
        assert time.monotonic() < limit
        time.sleep(0.01)
    assert not os.path.exists(f"/proc/{pid}"), "not even a zombie"


class Immortal:
    """Stands for `os.waitid` where no process can be made unkillable: children never end."""

    def __call__(self, *_: object) -> None:
        return


def test_the_wait_is_bounded_for_a_child_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "waitid", Immortal())
        began = time.monotonic()
        found = end("say(a=1)", seconds=0.3)
    assert time.monotonic() - began < 1.3
    assert (found.how, found.abandoned, found.events) == ("timeout", True, [{"a": 1}])
    limit = time.monotonic() + 10
    while isolated.reap():
        assert time.monotonic() < limit
        time.sleep(0.01)


LEFT = """
import os, sys
sys.path.insert(0, sys.argv[1])
from vplug_rs.platforms import isolated
os.waitid = lambda *_: None
print(isolated.run([isolated.Job("child", ["/bin/sleep", "60"])], 0.1)[0].abandoned)
"""


def test_a_child_left_behind_brings_no_warning_at_the_end() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", LEFT, str(ROOT)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_records_refuse_fields_that_they_do_not_have() -> None:
    with pytest.raises(TypeError, match="an end has no colour"):
        isolated.End([], "exited", colour="red")
    assert isolated.Job("x", ("a",)).as_dict() == {"name": "x", "words": ["a"], "environment": None}
