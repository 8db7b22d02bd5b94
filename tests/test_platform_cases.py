"""Every machine of the list: status, class, evidence and exit status as expected, in time, and without a trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from platform_cases import ALL
from platform_lab import Case, Libraries, Machine

pytestmark = pytest.mark.every_python  # once is enough: it goes by drivers and files, not by the interpreter


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Libraries:
    return Libraries(tmp_path_factory.mktemp("libraries"))


def no_trace(said: dict[str, Any], case: Case, libraries: Libraries) -> None:
    """Assert that the process is as it was, that it can fork, and that nobody touched a compute library."""
    assert said["changed"] == [], {name: (said["before"][name], said["after"][name]) for name in said["changed"]}
    assert said["after"]["mapped"] == []
    assert said["foreign"] == []
    assert said["forked"] == 0
    assert said["children"] is False
    assert said["printed"] == [0, 0]
    trips = libraries.trips()
    assert not [trip for trip in trips if trip[0] == said["pid"]]
    assert {library for _, library in trips} <= ({"libcuda"} if case.cuda else set())


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_the_platform_is_found_in_time_and_without_a_trace(case: Case, tmp_path: Path, libraries: Libraries) -> None:
    machine = Machine(tmp_path, case, libraries)
    said = machine.resolve()
    no_trace(said, case, libraries)
    assert said["seconds"] < (case.at_most or case.seconds + 1)
    assert said["exit"] == case.exit, said
    whole = json.dumps(said, ensure_ascii=False)
    for text in case.texts:
        assert text in whole
    if case.error is not None:
        assert said.get("error") == case.error, said
        return
    found = said["resolution"]
    assert (found["platform"], found["qualname"]) == (case.platform, case.qualname), found
    probes = {probe["platform"]: probe for probe in found["probes"]}
    assert {name: probes[name]["status"] for name in case.status} == case.status
    ids = {one["id"] for probe in found["probes"] for one in probe["evidence"]}
    assert set(case.evidence) <= ids, ids
    assert not set(case.absent) & ids
    for probe in found["probes"]:
        assert probe["reason"], f"{probe['platform']} is {probe['status']} without a reason"
    if case.devices is not None:
        assert len(probes["cuda"]["devices"]) == case.devices
