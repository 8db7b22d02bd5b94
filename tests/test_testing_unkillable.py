"""A folder that processes get stuck in: thawed again whatever happens, and told why where it cannot be made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vplug_rs.errors import VplugError
from vplug_rs.testing import unkillable


def test_a_frozen_folder_thaws_and_leaves_nothing(tmp_path: Path) -> None:
    if (reason := unkillable.why_not()) is not None:
        pytest.skip(reason)

    def mounted() -> list[str]:
        """What is mounted in this test's folder; elsewhere other tests may mount and unmount meanwhile."""
        points = (line.split()[1] for line in Path("/proc/mounts").read_text("utf-8").splitlines())
        return [point for point in points if point.startswith(str(tmp_path))]

    def break_in(folder: str) -> None:
        assert os.path.ismount(folder)
        assert mounted() == [folder]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), unkillable.frozen_folder(str(tmp_path)) as folder:
        break_in(folder)
    assert os.listdir(tmp_path) == []
    assert mounted() == []


def test_what_is_missing_for_a_frozen_folder_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert unkillable.why_not() == "only root may freeze a file system"
    with pytest.raises(VplugError, match="only root"), unkillable.frozen_folder(str(tmp_path)):
        pass
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert unkillable.why_not() == "fsfreeze, losetup, mkfs.ext4, mount, umount not installed"
    assert os.listdir(tmp_path) == []


def test_a_machine_that_refuses_is_told_once_it_was_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for tool in unkillable.TOOLS:
        program = tmp_path / tool
        program.write_text(f"#!/bin/sh\necho {tool} is not permitted >&2\nexit 1\n", "utf-8")
        program.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os.path, "exists", lambda _: True)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(unkillable, "_tried", [])
    assert unkillable.why_not() == "`mkfs.ext4` said: mkfs.ext4 is not permitted"
    monkeypatch.setenv("PATH", os.defpath)
    monkeypatch.setattr(unkillable, "_missing", lambda: None)
    assert unkillable.why_not() == "`mkfs.ext4` said: mkfs.ext4 is not permitted", "it is tried once"
