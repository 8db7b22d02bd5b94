"""A resolution handed to child processes: it counts where everything that it depends on is the same, and never lies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import test_platforms_outside
from interpreters import clean_environment, shared_import_root
from platform_records import machine, masked, plugin, present, torch, unknown
from sites import build, dist
from test_platforms_outside import NOTE, PlatformBed
from vplug_rs import _core, env
from vplug_rs.groups import PLATFORM
from vplug_rs.platforms import handover
from vplug_rs.platforms.classes import CLASSES
from vplug_rs.platforms.model import Resolution
from vplug_rs.platforms.resolution import resolve
from vplug_rs.testing import libraries

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vplug_rs.platforms.model import Probe

bed = test_platforms_outside.bed
PLAIN = {"PATH": "/usr/bin"}


def found(*probes: Probe, plugins: tuple[Probe, ...] = (), **variables: str) -> Resolution:
    return resolve(probes=machine(*probes), plugins=plugins, environment=variables, path=[])


def passed_on(resolution: Resolution, **more: str) -> Resolution | None:
    """What a child reads of it, which gets some more variables."""
    return handover.from_environment({**PLAIN, **handover.to_environment(resolution, PLAIN), **more})


@pytest.mark.parametrize("resolution", [found(present("cuda")), found(masked("cuda")), found(present("rocm"))])
def test_what_was_found_arrives(resolution: Resolution) -> None:
    arrived = passed_on(resolution)
    assert arrived is not None
    assert (arrived.platform, arrived.qualname, arrived.rule) == (
        resolution.platform,
        resolution.qualname,
        resolution.rule,
    )
    (probe,) = arrived.probes
    before = resolution.probe(str(resolution.platform))
    assert before is not None
    assert (probe.status, probe.source) == (before.status, "builtin")
    assert [row.id for row in probe.evidence] == [f"{resolution.platform}.handed-over"]


def test_it_is_one_short_variable() -> None:
    mapping = handover.to_environment(found(present("cuda")), PLAIN)
    assert list(mapping) == [env.PLATFORM_RESULT]
    assert len(mapping[env.PLATFORM_RESULT]) < 300
    assert "\n" not in mapping[env.PLATFORM_RESULT]


def test_what_is_unknown_or_nothing_is_not_handed_on() -> None:
    broken = plugin("tt", None, status="unknown")
    for resolution in (
        found(unknown("cuda")),
        found(unknown("cuda"), VPLUG_ON_UNKNOWN="assume"),
        found(present("cuda"), plugins=(broken,)),
        found(),
    ):
        assert handover.to_environment(resolution, PLAIN) == {}


@pytest.mark.parametrize(
    "change",
    [
        {"CUDA_VISIBLE_DEVICES": ""},
        {"ROCR_VISIBLE_DEVICES": "0"},
        {"VLLM_TARGET_DEVICE": "cpu"},
        {"VLLM_PLUGINS": "x"},
        {"VPLUG_PLATFORM": "rocm"},
        {"VPLUG_ON_UNKNOWN": "error"},
        {"JAX_PLATFORMS": "proxy"},
        {"LD_LIBRARY_PATH": "/opt/other"},
    ],
)
def test_it_does_not_count_where_a_variable_differs_that_matters(change: dict[str, str]) -> None:
    assert passed_on(found(present("cuda")), **change) is None


def test_other_variables_do_not_matter() -> None:
    assert passed_on(found(present("cuda")), HOME="/elsewhere", VPLUG_RUN="1") is not None


def test_every_variable_of_a_mask_or_choice_matters() -> None:
    same = handover.fingerprint(PLAIN)
    for name in handover.RELEVANT:
        assert handover.fingerprint({**PLAIN, name: "1"}) != same, name


def test_it_does_not_count_where_the_installation_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = build(tmp_path / "site", dist("vllm", "0.33.0"))
    monkeypatch.syspath_prepend(str(site))
    mapping = {**PLAIN, **handover.to_environment(found(present("cuda")), PLAIN)}
    assert handover.from_environment(mapping) is not None
    build(tmp_path / "other", dist("acme", "1.0", f"[{PLATFORM}]\nacme = acme:run\n"))
    with monkeypatch.context() as patch:
        patch.syspath_prepend(str(tmp_path / "other"))
        assert handover.from_environment(mapping) is None, "another platform plugin"
    with monkeypatch.context() as patch:
        patch.syspath_prepend(torch(tmp_path, "rocm")[0])
        assert handover.from_environment(mapping) is None, "another torch"
    with monkeypatch.context() as patch:
        patch.setattr("sys.prefix", str(tmp_path))
        assert handover.from_environment(mapping) is None, "another environment"
    assert handover.from_environment(mapping) is not None
    (site / "vllm-0.33.0.dist-info").rename(site / "vllm-0.33.0+cpu.dist-info")
    metadata = site / "vllm-0.33.0+cpu.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text("utf-8").replace("0.33.0", "0.33.0+cpu"), "utf-8")
    assert handover.from_environment(mapping) is None, "another vLLM"


def test_it_does_not_count_where_the_machine_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    mapping = {**PLAIN, **handover.to_environment(found(present("cuda")), PLAIN)}
    evidence, devices, facts = _core.probe_passive("/", PLAIN)
    row = ("cuda.node", "cuda", "file", "/dev/nvidia0", "character device", "strong", "")

    def looks(*answer: Any) -> bool:
        monkeypatch.setattr(_core, "probe_passive", lambda *_: answer)
        return handover.from_environment(mapping) is not None

    assert looks(evidence, devices, facts)
    assert not looks([*evidence, row], devices, facts)
    assert not looks(evidence, devices, {**facts, "boot_id": "another"})
    monkeypatch.setattr(_core, "probe_passive", None)
    assert handover.from_environment(mapping) is None, "what cannot be looked at is not the same"


def test_it_does_not_count_where_the_policy_has_changed(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("", "utf-8")
    before = handover.fingerprint({env.POLICY: str(policy)})
    policy.write_text("\n", "utf-8")
    assert handover.fingerprint({env.POLICY: str(policy)}) != before


def test_a_plugin_called_as_a_built_in_platform_arrives_as_a_plugin() -> None:
    arrived = passed_on(found(present("cuda"), plugins=(plugin("cuda", "acme.Cuda"),)))
    assert arrived is not None
    assert (arrived.qualname, arrived.probes[0].source) == ("acme.Cuda", "acme-cuda 1.0")


def _held(**changes: Any) -> str:
    held = json.loads(handover.to_environment(found(present("cuda")), PLAIN)[env.PLATFORM_RESULT])
    return json.dumps({**held, **changes})


DAMAGED: dict[str, Callable[[], str]] = {
    "empty": lambda: "",
    "no json": lambda: "cuda",
    "half": lambda: _held()[:-7],
    "a list": lambda: "[]",
    "a number": lambda: "7",
    "another schema": lambda: _held(schema=2),
    "no schema": lambda: _held(schema=None),
    "a schema that is only equal": lambda: _held(schema=True),
    "a schema that is no whole number": lambda: _held(schema=1.0),
    "an order that nobody gives": lambda: _held(rule="override"),
    "an order of a class that nobody gives": lambda: _held(rule="override", qualname="evil.platform.P"),
    "another print": lambda: _held(print="0" * 32),
    "no class": lambda: _held(qualname=None),
    "no dotted name": lambda: _held(qualname="os; import os"),
    "an odd rule": lambda: _held(rule="none"),
    "unknown": lambda: _held(status="unknown"),
    "a foreign class as built-in": lambda: _held(qualname="evil.platform.P"),
    "a number for a text": lambda: _held(platform=7),
    "too long": lambda: _held(more="x" * 5000),
    "deep": lambda: "[" * 1900,
    "bytes": lambda: "\udcff" * 5,
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_what_is_damaged_or_foreign_is_none_and_no_error(kind: str) -> None:
    assert handover.from_environment({**PLAIN, env.PLATFORM_RESULT: DAMAGED[kind]()}) is None


def test_nothing_is_handed_over_where_nothing_is_set() -> None:
    assert handover.from_environment(PLAIN) is None


def test_an_order_arrives_as_an_order() -> None:
    environment = {**PLAIN, "VPLUG_PLATFORM": "acme.platform.P"}
    resolution = resolve(probes=[], plugins=[], environment=environment, path=[])
    arrived = handover.from_environment({**environment, **handover.to_environment(resolution, environment)})
    assert arrived is not None
    assert (arrived.qualname, arrived.rule) == ("acme.platform.P", "override")


@pytest.mark.parametrize("order", [{"VPLUG_PLATFORM": "cuda"}, {"VLLM_TARGET_DEVICE": "CPU"}])
def test_what_passes_over_an_order_does_not_count(order: dict[str, str]) -> None:
    environment = {**PLAIN, **order}
    strictly = Resolution("builtin", platform="cuda", qualname=CLASSES["cuda"], probes=[present("cuda")])
    assert handover.from_environment({**environment, **handover.to_environment(strictly, environment)}) is None
    followed = Resolution("override", platform="cuda", qualname=CLASSES["cuda"], probes=[present("cuda")])
    assert handover.from_environment({**environment, **handover.to_environment(followed, environment)}) is not None


CHILD = """
    import subprocess
    from vplug_rs.platforms import handover, resolution
    from vplug_rs.platforms.model import Probe, Resolution
    code = "import sys; sys.path[:0] = {path!r}\\n" + {code!r}
    def child(found, **more):
        variables = dict(os.environ, **more)
        variables |= handover.to_environment(found, variables)
        done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=False)
        return (done.stdout or done.stderr).strip()
"""
LOOK = """
import vplug_rs
from vplug_rs.platforms import resolution
def look(**_): raise SystemExit("it looked itself")
resolution.resolve = look
found = vplug_rs.get_platform()
print(found.qualname, found.rule)
"""


def test_a_child_takes_what_it_is_handed_and_does_not_look(bed: PlatformBed) -> None:
    prelude = CHILD.format(path=[str(bed.site)], code=LOOK)
    said = bed.ask(
        f"""{prelude}
    cuda = Resolution("builtin", platform="cuda", qualname={CLASSES["cuda"]!r}, probes=[
        Probe("cuda", "present", qualname={CLASSES["cuda"]!r})])
    first = child(cuda)
    os.environ.update(handover.to_environment(cuda))
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    second = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr.strip()
    say(first, second)
    """
    )
    assert said == [f"{CLASSES['cuda']} builtin", "it looked itself"]


def test_of_a_plugin_only_the_name_is_handed_on_and_it_alone_is_asked_again(bed: PlatformBed) -> None:
    answer = NOTE + "def run():\n    note('{0}')\n    return os.environ.get('ACME', 'acme.A')\n"
    bed.offer("mine", answer.format("mine")).offer("other", answer.format("other"))
    prelude = CHILD.format(path=[str(bed.site)], code=LOOK)
    said = bed.ask(
        f"""{prelude}
    mine = Resolution("oot", platform="mine", qualname="acme.A", probes=[
        Probe("mine", "present", source="acme-mine 1.0", qualname="acme.A")])
    say(child(mine), child(mine, ACME="acme.B"))
    """
    )
    assert said == ["acme.A oot", "it looked itself"], "another answer than the one that was handed on: all is asked"
    assert bed.notes() == ["mine", "mine"]


def under_run(bed: PlatformBed, code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """`vplug run -- python -c CODE`."""
    return subprocess.run(
        [sys.executable, "-m", "vplug_rs", "run", "--", sys.executable, "-c", code],
        env=clean_environment(PYTHONPATH=os.pathsep.join([str(bed.site), str(shared_import_root())]), **variables),
        cwd=bed.folder,
        capture_output=True,
        text=True,
        check=False,
    )


SHOW = """
import os, vplug_rs
from vplug_rs.platforms import handover
handed = handover.from_environment()
print("VPLUG_PLATFORM_RESULT" in os.environ, handed and handed.qualname, vplug_rs.get_platform().qualname)
"""


FORCED = {"VPLUG_PLATFORM": "cuda", "VPLUG_PLATFORM_FORCE": "1"}
CUDA = "vllm.platforms.cuda.CudaPlatform"


def test_vplug_run_hands_it_on_where_vllm_is_switched_on(bed: PlatformBed) -> None:
    done = under_run(bed, SHOW, VPLUG_VLLM="1", **FORCED)
    assert done.stdout == f"True {CUDA} {CUDA}\n"
    done = under_run(bed, SHOW, **FORCED)
    assert done.stdout == f"False None {CUDA}\n"


def test_vplug_run_leaves_plugins_to_the_program(bed: PlatformBed) -> None:
    bed.offer("mine", NOTE + "print('loud')\ndef run():\n    note('called')\n    return 'acme.Mine'\n")
    done = under_run(bed, SHOW, VPLUG_VLLM="1")
    assert done.stdout == "loud\nFalse None acme.Mine\n"
    assert bed.notes() == ["called"]
    kept_out = under_run(bed, SHOW, VPLUG_VLLM="1", VLLM_PLUGINS="", **FORCED)
    assert kept_out.stdout == f"True {CUDA} {CUDA}\n"


def test_vplug_run_fails_for_no_platform(bed: PlatformBed) -> None:
    bed.offer("mine", "import os\ndef run(): os._exit(9)\n")
    code = "import os; print('VPLUG_PLATFORM_RESULT' in os.environ)"
    for wish in ("mine", "nonsuch"):
        done = under_run(bed, code, VPLUG_VLLM="1", VPLUG_PLATFORM=wish)
        assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")


@pytest.fixture
def driver(tmp_path: Path) -> dict[str, str]:
    """Variables by which processes find a driver's library of ours, which notes what is called."""
    if libraries.compiler() is None:
        pytest.skip("no C compiler here: no driver's library can be made")
    folder = tmp_path / "lib"
    libraries.fake_nvml(str(folder))
    return {"LD_LIBRARY_PATH": str(folder), "FAKE_NVML_LOG": str(tmp_path / "log"), "VPLUG_VLLM": "1"}


def test_vplug_run_says_that_a_driver_did_not_answer_and_starts_the_program(
    bed: PlatformBed, driver: dict[str, str]
) -> None:
    code = "import os; print('VPLUG_PLATFORM_RESULT' in os.environ)"
    done = under_run(bed, code, **driver, FAKE_NVML_HANG="nvmlInitWithFlags", VPLUG_PROBE_TIMEOUT="0.5")
    assert (done.returncode, done.stdout) == (0, "False\n")
    assert done.stderr.startswith("warning: whether the platform cuda is here is not known")


def test_the_driver_is_asked_once_for_runs_in_runs_and_the_program(bed: PlatformBed, driver: dict[str, str]) -> None:
    words = "[sys.executable, '-m', 'vplug_rs', 'run', '--', sys.executable, '-c', " + repr(SHOW) + "]"
    done = under_run(bed, f"import os, sys; os.execv(sys.executable, {words})", **driver)
    assert (done.stdout, done.stderr) == (f"True {CUDA} {CUDA}\n", "")
    with open(driver["FAKE_NVML_LOG"], encoding="utf-8") as log:
        assert log.read().count("nvmlInitWithFlags") == 1


def test_the_environment_of_this_process_is_left_alone() -> None:
    before = dict(os.environ)
    handover.to_environment(found(present("cuda")))
    handover.from_environment()
    assert dict(os.environ) == before
