"""A machine for one case: a fake root, a fake driver library, tripwires, modules, a mask; and what is found there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from interpreters import clean_environment, located, shared_import_root

CHILD = Path(__file__).with_name("platform_child.py")


@dataclass(frozen=True)
class Case:
    """One machine, and what has to be said of it.

    Attributes:
        name: The test's name.
        root: The fake root.
        nvml: The variant of the fake library, or None for no library.
        nvml_version: The version that its file is named by, as drivers do it.
        fake: What steers it, without the prefix `FAKE_NVML_`.
        environment: Further variables.
        modules: Fake modules, by the kinds of `vplug_rs.testing.modules`.
        distributions: Installed ones, with their versions.
        pynvml: Whether nvidia-ml-py is installed beside a fake library.
        seconds: The deadline of the probe.
        platform: The platform that counts, or None.
        qualname: Its class, or None.
        status: Platform -> status.
        evidence: Ids that have to be there.
        absent: Ids that must not.
        exit: The command's exit status.
        error: The error's type, if it has to raise.
        at_most: Seconds until it has to be back; the deadline and one second if None.
        devices: How many GPUs have to be listed.
        texts: What has to be said somewhere.
        cuda: Whether a child may ask the CUDA driver itself.
        child: A shell program that is started in the place of the interpreter, wherever a driver is to be asked.
    """

    name: str
    root: str = "empty"
    nvml: str | None = None
    nvml_version: str | None = None
    fake: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    modules: tuple[str, ...] = ()
    distributions: dict[str, str] = field(default_factory=dict)
    pynvml: bool = True
    seconds: float = 5.0
    platform: str | None = None
    qualname: str | None = None
    status: dict[str, str] = field(default_factory=dict)
    evidence: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    exit: int = 1
    error: str | None = None
    at_most: float | None = None
    devices: int | None = None
    texts: tuple[str, ...] = ()
    cuda: bool = False
    child: str | None = None


class Libraries:
    """What stands in for vendors' libraries, made once for many machines.

    Attributes:
        tripped: The file that says who has loaded or called a compute library, if anybody has.
    """

    def __init__(self, folder: Path) -> None:
        from vplug_rs.testing import libraries

        if libraries.compiler() is None:
            pytest.skip("no C compiler here: the libraries that stand in for vendors' cannot be built")
        self.folder, self.tripped = folder, folder / "tripped"
        libraries.tripwires(str(folder / "tripwires"), str(self.tripped))

    def trips(self) -> list[tuple[int, str]]:
        """Who has touched a compute library since the last call: process and library."""
        if not self.tripped.exists():
            return []
        lines = self.tripped.read_text("utf-8").splitlines()
        self.tripped.unlink()
        return [(int(line.split()[0]), line.split()[1]) for line in lines]

    def path(self, variant: str | None, version: str | None) -> str:
        """A value of LD_LIBRARY_PATH, with a variant of the fake NVML."""
        from vplug_rs.testing import libraries

        folders = [self.folder / "tripwires"]
        if variant is not None:
            folder = self.folder / f"{variant}-{version}"
            made = Path(libraries.fake_nvml(str(folder), variant))
            if version is not None and not made.is_symlink():
                target = made.rename(folder / f"libnvidia-ml.so.{version}")
                made.symlink_to(target.name)
            folders.insert(0, folder)
        return os.pathsep.join(map(str, folders))


class Machine:
    """The folder of one case, and processes in it."""

    def __init__(self, folder: Path, case: Case, libraries: Libraries) -> None:
        from vplug_rs.testing import modules, roots

        self.folder, self.case = folder, case
        self.root = roots.build(case.root, folder)
        self.library = libraries.path(case.nvml, case.nvml_version)
        self.site = folder / "site"
        self.site.mkdir()
        for kind in case.modules:
            modules.fake_module(str(self.site), kind)
        for name, version in case.distributions.items():
            modules.fake_distribution(str(self.site), name, version)
        if case.pynvml and case.nvml is not None:
            (self.site / "pynvml.py").symlink_to(located("pynvml"))

    def environment(self) -> dict[str, str]:
        """The variables of a process on this machine."""
        fake = {f"FAKE_NVML_{name}": value for name, value in self.case.fake.items()}
        path = os.pathsep.join([str(self.site), str(shared_import_root())])
        return clean_environment(PYTHONPATH=path, LD_LIBRARY_PATH=self.library, **fake, **self.case.environment)

    def resolve(self, **options: Any) -> dict[str, Any]:
        """Resolve in a fresh process, between two looks at it."""
        job = {"root": self.root, "active": True, "timeout": self.case.seconds, **options}
        if self.case.child is not None:
            program = self.folder / "python"
            program.write_text(f"#!/bin/sh\n{self.case.child}\n", "utf-8")
            program.chmod(0o755)
            job["executable"] = str(program) if self.case.child else ""
        reader, writer = os.pipe()
        with subprocess.Popen(
            # -S: what is installed beside the tests is no part of the case
            [sys.executable, "-S", "-B", "-W", "error", str(CHILD), str(writer), json.dumps(job)],
            env=self.environment(),
            cwd=self.folder,
            pass_fds=[writer],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            os.close(writer)
            _, errors = process.communicate(timeout=60)
        with os.fdopen(reader, encoding="utf-8") as stream:
            text = stream.read()
        assert process.returncode == 0, errors.decode()
        said: dict[str, Any] = json.loads(text)
        return said
