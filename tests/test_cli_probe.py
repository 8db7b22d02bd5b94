"""`vplug probe`: what a reader sees of each platform, what a wrong command line says, the exit statuses."""

from __future__ import annotations

import textwrap

import pytest

from cli_lab import CommandLab, lab
from vplug_rs import cli
from vplug_rs.cli import platform_text, probe
from vplug_rs.platforms import model
from vplug_rs.platforms.model import Device, Evidence, Probe
from vplug_rs.testing import libraries, roots

__all__ = ["lab"]


def evidence(weight: str, id: str = "x.y", found: str = "", text: str = "") -> Evidence:  # noqa: A002
    return Evidence(id, "file", "/dev/x", found, weight, text)


def test_a_platform_that_is_here_is_shown_whole() -> None:
    found = Probe(
        "cuda",
        model.MASKED,
        qualname="vllm.platforms.cuda.CudaPlatform",
        reason="1 GPU, and CUDA_VISIBLE_DEVICES hides it",
        devices=[Device(0, name="NVIDIA H200", visible=False)],
        evidence=[
            evidence(model.STRONG, "cuda.node", text="the node of an NVIDIA GPU"),
            evidence(model.WEAK, "cuda.library", "550.1", "the driver's library"),
            evidence(model.AGAINST, "cuda.access", text="this user may not open it"),
            Evidence("cuda.mask", "env", "CUDA_VISIBLE_DEVICES", "", model.INFO, "hides all devices"),
        ],
        backend="pynvml",
        isolated=True,
        ms=43.21,
        hint="unset CUDA_VISIBLE_DEVICES",
    )
    assert "\n".join(platform_text.probe_lines(found)) == textwrap.dedent("""\
        cuda (NVIDIA GPU)  masked  1 GPU, and CUDA_VISIBLE_DEVICES hides it
          yes   /dev/x                   the node of an NVIDIA GPU
          weak  /dev/x: 550.1            the driver's library
          no    /dev/x                   this user may not open it
          info  CUDA_VISIBLE_DEVICES=""  hides all devices
          cuda  0  NVIDIA H200  hidden by the environment
          class  vllm.platforms.cuda.CudaPlatform
          asked  NVML, by pynvml, in a process of its own, 43.2 ms
          fix    unset CUDA_VISIBLE_DEVICES""")


def test_what_has_nothing_to_say_is_one_line_and_what_is_here_stands_first() -> None:
    probes = [
        Probe("tpu", model.ABSENT, evidence=[evidence(model.INFO)]),
        Probe("rocm", model.ABSENT, evidence=[evidence(model.WEAK)]),
        Probe("xpu", model.UNKNOWN),
        Probe("cuda", model.PRESENT),
        Probe("cpu", model.ABSENT, reason="this vLLM is no CPU build", evidence=[evidence(model.INFO)]),
        Probe("npu", model.SKIPPED),
    ]
    blocks = probe.blocks(probes, everything=False)
    assert [block[0].split()[0] for block in blocks] == ["cuda", "xpu", "rocm", "cpu", "nothing"]
    assert blocks[3] == ["cpu (processor)  absent  this vLLM is no CPU build"]
    assert blocks[4] == ["nothing seen of: tpu (Google TPU), npu (Huawei Ascend)"]
    assert len(probe.blocks(probes, everything=True)) == len(probes)


@pytest.mark.parametrize(
    ("found", "status"),
    [
        ([model.PRESENT, model.UNKNOWN], 0),
        ([model.MASKED, model.ABSENT], 0),
        ([model.ABSENT, model.UNKNOWN], 3),
        ([model.ABSENT, model.SKIPPED], 1),
        ([], 1),
    ],
)
def test_exit_statuses(found: list[str], status: int) -> None:
    assert probe.status_of([Probe("x", one) for one in found]) == status


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["cud"], "there is no platform `cud`\nhint: did you mean `cuda`? there are tpu, cuda, rocm,"),
        (["zzz"], "there is no platform `zzz`\nhint: there are tpu, cuda, rocm,"),
        (["--root", "/nonexistent"], "`/nonexistent` is no folder\nhint: --root wants the folder that stands for /"),
        (["--timeout", "soon"], "argument --timeout: `soon` is no number of seconds\n"),
        (["--timeout", "-1"], "argument --timeout: `-1` is no number of seconds\n"),
        (["--timeout", "nan"], "argument --timeout: `nan` is no number of seconds\n"),
        (["--active", "--passive"], "argument --passive: not allowed with argument --active\n"),
    ],
)
def test_a_wrong_command_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["probe", *words]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"error: {message}")


@pytest.mark.parametrize(
    ("name", "words", "status", "first"),
    [
        ("nvidia-h100x8", [], 0, "cuda (NVIDIA GPU)  present  "),
        ("nvidia-h100x8", ["rocm"], 1, "rocm (AMD GPU)  absent  nothing of it was seen"),
        ("driver-mismatch", [], 3, "cuda (NVIDIA GPU)  unknown  "),
        ("driver-mismatch", ["CUDA", "tpu"], 3, "cuda (NVIDIA GPU)  unknown  "),
        ("wsl-without-libraries", [], 3, "cuda (NVIDIA GPU)  unknown  "),
        ("masked", [], 0, "cuda (NVIDIA GPU)  masked  "),
        ("ascend", [], 0, "npu (Huawei Ascend)  present  "),
        ("empty", [], 1, "cpu (processor)  absent  "),
    ],
)
def test_roots(lab: CommandLab, name: str, words: list[str], status: int, first: str) -> None:
    root = roots.build(name, lab.root)
    done = lab.run(lab.site(), "probe", *words, "--root", root, **roots.environment(name))  # type: ignore[arg-type]  # all of them for the environment
    assert (done.returncode, done.stderr) == (status, "")
    assert done.stdout.startswith(first)
    assert ("nothing seen of: " in done.stdout) is (not words)


@pytest.mark.parametrize(("lost", "status"), [("1", 0), ("all", 3)])
def test_a_driver_that_has_lost_every_device_is_no_success(lab: CommandLab, lost: str, status: int) -> None:
    if libraries.compiler() is None:
        pytest.skip("no C compiler, so there is no driver to be scripted")
    folder = lab.site("driver")
    libraries.fake_nvml(str(folder))
    words = ("probe", "--active", "--root", roots.build("nvidia-h100x8", lab.root))
    environment = {"LD_LIBRARY_PATH": str(folder), "FAKE_NVML_COUNT": "2", "FAKE_NVML_LOST": lost}
    done = lab.run(lab.site(), *words, **environment)  # type: ignore[arg-type]  # all of them for the environment
    assert (done.returncode, done.stderr) == (status, "")
    assert done.stdout.startswith("cuda (NVIDIA GPU)  present  NVML counts 2 GPUs")
    assert "gpu-reset" in done.stdout


def test_below_another_root_the_loaders_path_leads_to_nothing_of_this_machine(lab: CommandLab) -> None:
    root, folder = roots.build("empty", lab.root), lab.site("driver")
    (folder / "libnvidia-ml.so.1").touch()
    words = ("probe", "cuda", "--passive")
    assert f"weak  {folder}/libnvidia-ml.so.1" in lab.run(lab.site(), *words, LD_LIBRARY_PATH=str(folder)).stdout
    done = lab.run(lab.site(), *words, "--root", root, LD_LIBRARY_PATH=str(folder))
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("cuda (NVIDIA GPU)  absent  nothing of it was seen")


def test_all_that_there_is_as_data(lab: CommandLab) -> None:
    root = roots.build("nvidia-and-rocm", lab.root)
    found = lab.json(lab.site(), "probe", "--root", root)
    assert found["root"] == root
    assert [one["platform"] for one in found["probes"]] == list(platform_text.NAMES)
    assert "['cuda', 'rocm']" in found["resolution"]["error"]
    cuda = next(one for one in found["probes"] if one["platform"] == "cuda")
    assert [row["id"] for row in cuda["evidence"]] == roots.expected("nvidia-and-rocm")["cuda"]
    assert (cuda["status"], cuda["backend"], cuda["isolated"]) == ("present", "passive", False)
    (only,) = lab.json(lab.site(), "probe", "cuda", "--root", root)["probes"]
    assert only["devices"] == cuda["devices"]


def test_a_plugin_that_is_named_is_known_and_not_asked(lab: CommandLab) -> None:
    site = lab.site()
    lab.plugin(site, "acme_chip", "[vllm.platform_plugins]\nnpu = acme_chip:register\n", module=False)
    told = lab.json(site, "probe", "--root", str(lab.root), status=1, VPLUG_PLATFORM="npu")["resolution"]
    assert told["error"] == "VPLUG_PLATFORM is `npu`, and the plugin npu of acme_chip 1.0 was not asked"
    told = lab.json(site, "probe", "--root", str(lab.root), status=1, VPLUG_POLICY="/nonsuch")["resolution"]
    assert "/nonsuch" in told["error"]


def test_this_machine_passively(lab: CommandLab) -> None:
    """Whatever is here: an answer, and no process but the command's own."""
    found = lab.json(lab.site(), "probe", "--passive", status=lab.run(lab.site(), "probe", "--passive").returncode)
    assert found["root"] == "/"
    assert {one["backend"] for one in found["probes"]} == {"passive"}
