"""Fake roots: what comes with the package, what a description may say, what is refused."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from vplug_rs.testing import roots

WANTED = {
    "nvidia-h100x8", "nvidia-driver-not-loaded", "nvidia-nodes-absent", "nvidia-container", "nvidia-nodes-denied",
    "tegra-release-file", "tegra-soc-family", "tegra-firmware", "wsl-with-libraries", "wsl-without-libraries",
    "mig-two-instances", "mig-without-instance", "gb10", "gh200", "vgpu", "driver-mismatch", "rocm-mi300x", "rocm-igpu",
    "rocm-cpu-nodes-only", "rocm-binary-properties", "rocm-long-properties", "rocm-unreadable-properties",
    "rocm-no-sysfs", "nvidia-and-amd-igpu", "xpu-discrete", "xpu-igpu", "tpu-v5e", "tpu-vfio", "tpu-gvnic-only",
    "tpu-pathways", "accel-directory", "vfio-bluefield", "amd-npu-accel", "neuron", "neuron-lookalikes", "gaudi",
    "ascend", "davinci-lookalike", "no-proc", "empty", "laptop", "zen-avx512",
}  # fmt: skip
PLATFORMS = {"cuda", "rocm", "xpu", "tpu", "cpu", "neuron", "hpu", "npu"}
WHOLE = """
about = "one of each"
nodes = ["nvidia0", "dri/renderD128"]

[files]
"etc/text" = "text"
"etc/hex" = { hex = "00ff" }
"etc/base64" = { base64 = "AP8=" }
"etc/repeat" = { repeat = "ab", times = 3 }

[links]
"etc/link" = "/etc/text"

[special]
"run/fifo" = "fifo"
"run/socket" = "socket"
"run/folder" = "folder"
"run/unreadable" = "unreadable"

[pci."0000:18:00.0"]
id = "10de:2330"
class = "030200"
driver = "nvidia"

[pci."0000:19:00.0"]
id = "10de:2330"
class = "030200"
driver = "nvidia"
form = "files"

[environment]
CUDA_VISIBLE_DEVICES = "0"

[expect]
cuda = ["cuda.pci"]
"""


def test_each_row_of_the_reference_has_a_root() -> None:
    assert set(roots.names()) >= WANTED
    assert roots.names() == sorted(roots.names())


@pytest.mark.parametrize("name", roots.names())
def test_each_root_says_what_it_is_and_what_is_seen_in_it(name: str) -> None:
    assert roots.about(name).endswith(".")
    expected = roots.expected(name)
    assert set(expected) <= PLATFORMS
    for platform, ids in expected.items():
        assert ids
        assert all(one.startswith(f"{platform}.") for one in ids)


def test_a_description_of_ones_own_may_hold_everything(tmp_path: Path) -> None:
    description = tmp_path / "mine.toml"
    description.write_text(WHOLE)
    name = str(description)
    root = Path(roots.build(name, tmp_path))
    assert root == tmp_path / "mine"
    assert (root / "dev/nvidia0").read_bytes() == (root / "dev/dri/renderD128").read_bytes() == b""
    contents = {path.name: path.read_bytes() for path in (root / "etc").iterdir() if not path.is_symlink()}
    assert contents == {"text": b"text", "hex": b"\x00\xff", "base64": b"\x00\xff", "repeat": b"ababab"}
    assert (root / "etc/link").readlink() == Path("/etc/text")
    kinds = {path.name: stat.S_IFMT(path.stat().st_mode) for path in (root / "run").iterdir()}
    assert kinds == {
        "fifo": stat.S_IFIFO,
        "socket": stat.S_IFSOCK,
        "folder": stat.S_IFDIR,
        "unreadable": stat.S_IFREG,
    }
    assert (root / "run/unreadable").stat().st_mode & 0o777 == 0
    devices = root / "sys/bus/pci/devices"
    assert (devices / "0000:18:00.0/uevent").read_text() == (
        "DRIVER=nvidia\nPCI_CLASS=30200\nPCI_ID=10DE:2330\nPCI_SLOT_NAME=0000:18:00.0\n"
    )
    assert (devices / "0000:19:00.0/class").read_text() == "0x030200\n"
    assert (devices / "0000:19:00.0/driver").readlink().name == "nvidia"
    assert (roots.about(name), roots.needs_user(name)) == ("one of each", False)
    assert roots.environment(name) == {"CUDA_VISIBLE_DEVICES": "0"}
    assert roots.expected(name) == {"cuda": ["cuda.pci"]}


def test_a_root_is_made_once(tmp_path: Path) -> None:
    roots.build("empty", tmp_path)
    with pytest.raises(FileExistsError):
        roots.build("empty", tmp_path)


def test_an_unknown_name_is_refused_with_those_that_exist(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match=r"called 'nvidia'; there are .*nvidia-h100x8"):
        roots.build("nvidia", tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[files]\n"../x" = ""', "no path below a root"),
        ('[files]\n"/etc/x" = ""', "no path below a root"),
        ('nodes = ["../../x"]', "no path below a root"),
        ('[files]\n"x" = { repeat = "a" }', "x: .* no content"),
        ('[special]\n"x" = "device"', "x: 'device' is none of"),
        ('[pci."0000:18:00.0"]\nid = "10de:2330"', "0000:18:00.0: a function needs"),
        ('[pci."0000:18:00.0"]\nid = "10de"\nclass = "030200"', "0000:18:00.0: a function needs"),
        ("files = [", "Invalid|Unclosed|Expected"),
    ],
)
def test_a_wrong_description_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "wrong.toml").write_text(text)
    with pytest.raises(ValueError, match=said):
        roots.build(str(tmp_path / "wrong.toml"), tmp_path)
    assert not (tmp_path.parent / "x").exists()


def test_importing_brings_nothing_along() -> None:
    code = "import sys; old = set(sys.modules); from vplug_rs.testing import roots; print(*set(sys.modules) - old)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-S", "-c", code]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    new = {name for name in told.stdout.split() if not name.startswith("vplug_rs")}
    assert not new & {"tomllib", "re", "typing", "pathlib", "base64", "importlib.resources"}, new
