"""While the core reads, other Python threads run. Shown without a clock: nobody is ever asked to hand over."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sites import build, dist
from vplug_rs import _core

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SUFFIXES = [".py"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that takes some milliseconds to read."""
    folder = tmp_path_factory.mktemp("site")
    for number in range(2000):
        build(folder, dist(f"p{number}", "1", "[g]\na = m:f\n", RECORD="m.py,,\n"))
    build(folder, dist("large", "1", RECORD="".join(f"m{number}.py,,\n" for number in range(20_000))))
    return folder


@pytest.fixture
def stubborn() -> Iterator[None]:
    """Nobody gives up the interpreter unless it waits or releases it."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    yield
    sys.setswitchinterval(before)


CALLS: dict[str, Callable[[Path], object]] = {
    "scan": lambda site: _core.Scanner().scan([str(site)]),
    "survey": lambda site: _core.Scanner().survey([str(site)]),
    "find": lambda site: _core.Scanner().find([str(site)], "p7"),
    "header": lambda site: _core.Scanner().header([str(site)], "p7", "Version"),
    "packages": lambda site: _core.Scanner().packages([str(site)], generation=13, suffixes=SUFFIXES),
    "strict_list": lambda site: _core.Scanner().strict_list(str(site)),
    "strict_find": lambda site: _core.Scanner().strict_find([str(site)], "p7"),
    "strict_header": lambda site: _core.Scanner().strict_header([str(site)], "p7", "Version"),
    "strict_entry_points": lambda site: _core.Scanner().strict_entry_points([str(site)]),
    "strict_packages": lambda site: _core.Scanner().strict_packages(str(site), generation=13, suffixes=SUFFIXES),
    "read_record": lambda site: _core.read_record(str(site / "large-1.dist-info"), str(site), exists=True),
    "read_files": lambda site: _core.read_files(str(site / "large-1.dist-info"), str(site)),
}


def others_ran_during(call: Callable[[], object]) -> bool:
    start, ran = threading.Lock(), threading.Event()

    def other() -> None:
        with start:
            ran.set()

    start.acquire()
    thread = threading.Thread(target=other)
    thread.start()
    start.release()  # from now on it wants the interpreter, which we keep until the core releases it
    assert not ran.is_set()
    call()
    seen = ran.is_set()
    thread.join()
    return seen


@pytest.mark.usefixtures("stubborn")
@pytest.mark.parametrize("name", CALLS)
def test_another_thread_runs_during(name: str, site: Path) -> None:
    # the other one has to wake up before a quick call ends
    assert any(others_ran_during(lambda: CALLS[name](site)) for _ in range(50))


@pytest.mark.usefixtures("stubborn")
def test_no_thread_runs_while_the_interpreter_is_kept() -> None:
    assert not any(others_ran_during(lambda: sum(range(100_000))) for _ in range(20))
