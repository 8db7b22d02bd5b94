from __future__ import annotations

import json
import os
import threading
import time

import pytest

from vplug_logits.counters import REASONS, Counters, Step


def test_steps_add_up_and_the_snapshot_is_plain_data() -> None:
    counters = Counters()
    first = Step(rows=3, rescored=30, most=20, clipped=1, seconds=0.5)
    first.fell_back("window", 1)
    first.fell_back("states", 0)
    counters.add(first)
    counters.add(Step(rows=2, rescored=10, most=7, seconds=0.25))
    counters.fallback("building", 4)

    found = counters.snapshot()

    assert json.loads(json.dumps(found)) == found
    assert (found["steps"], found["rows"], found["fallback_steps"], found["fallback_rows"]) == (3, 9, 2, 5)
    assert found["fallbacks"] == {"window": 1, "building": 4}
    assert (found["rescored_rows"], found["rescored_most"], found["clipped"]) == (40, 20, 1)
    assert found["seconds"] == 0.75


def test_a_snapshot_does_not_change_when_counting_goes_on() -> None:
    counters = Counters()
    counters.fallback("states", 1)
    found = counters.snapshot()
    counters.fallback("states", 1)

    assert found["fallbacks"] == {"states": 1}


def test_threads_lose_no_step() -> None:
    counters = Counters()

    def work() -> None:
        for _ in range(2000):
            counters.fallback("window", 1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert counters.snapshot()["steps"] == counters.snapshot()["fallbacks"]["window"] == 8000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_forked_while_a_thread_counts_can_count() -> None:
    counters = Counters()
    with counters._lock:  # a thread that is not there in the child
        child = os.fork()
        if not child:
            counters.fallback("window", 1)
            os._exit(0)
    deadline = time.monotonic() + 10
    ended, status = 0, -1
    while not ended and time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.01)
    if not ended:
        os.kill(child, 9)
        os.waitpid(child, 0)

    assert (ended, status) == (child, 0)


def test_reset_begins_again() -> None:
    counters = Counters()
    counters.fallback("window", 1)
    counters.reset()

    assert counters.snapshot() == Counters().snapshot()


def test_each_reason_has_a_sentence() -> None:
    assert all(sentence and not sentence.endswith(".") for sentence in REASONS.values())
