"""What every Python test gets: hypothesis profiles, and a header that says which interpreters take part."""

from __future__ import annotations

import importlib.util
import signal

import pytest

import interpreters

collect_ignore = ["real_vllm"]  # in an environment of its own: `make test-vllm`


def pytest_configure() -> None:
    """Set few hypothesis examples; --hypothesis-profile=slow sets many."""
    # A shell ignores Ctrl-C for what it starts with `&`, and `nohup` hanging up, and every child inherits that: those
    # that tests send either would run on.
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)
    # The cases run with a borrowed pytest on other interpreters too, and nothing else is there.
    if importlib.util.find_spec("hypothesis") is None:
        return
    import hypothesis

    # No deadline: a busy machine is no reason to fail.
    hypothesis.settings.register_profile("quick", max_examples=25, deadline=None, derandomize=True)
    hypothesis.settings.register_profile("slow", max_examples=1000, deadline=None)
    hypothesis.settings.load_profile("quick")


def pytest_report_header() -> list[str]:
    """Say aloud which interpreters the tests run on, and which are missing."""
    found = interpreters.found()
    here = ", ".join(f"{interpreter} ({interpreter.executable})" for interpreter in found.values())
    missing = [f"3.{minor}" for minor in interpreters.MINORS if minor not in found]
    lines = [f"interpreters: {here}"]
    if missing:
        lines.append(f"interpreters NOT found, their tests are skipped: {', '.join(missing)}")
    return lines


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `interpreters.each_minor` spreads over all interpreters."""
    for item in items:
        spread = getattr(item, "callspec", None)
        if spread is not None and "minor" in spread.params:
            item.add_marker("every_python")
