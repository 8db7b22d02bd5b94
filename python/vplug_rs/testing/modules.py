"""Fake modules and distributions: what a probe may find on the path, and must not import.

    fake_module(folder, "torch-hip")
    fake_module(folder, "libtpu-exits")
    fake_distribution(folder, "vllm", "0.33.0+cpu")

Each one's first line appends its name to the file that `FAKE_MODULE_LOG` names, if that is set: a log that stays empty
proves that nobody imported it.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

LOG = "FAKE_MODULE_LOG"

_WIRE = f"""\
import os
if os.environ.get("{LOG}"):
    with open(os.environ["{LOG}"], "a", encoding="utf-8") as log:
        print(__name__, file=log)
"""

_EXITS = "raise SystemExit(77)\n"

_TORCH = """\
from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'rocm', 'xpu']
__version__ = '{version}'
debug = False
cuda: Optional[str] = {cuda!r}
git_version = '0123456789abcdef0123456789abcdef01234567'
hip: Optional[str] = {hip!r}
rocm: Optional[str] = {hip!r}
xpu: Optional[str] = {xpu!r}
"""

_AMDSMI = """
import time

class AmdSmiException(Exception):
    pass

class AmdSmiLibraryException(AmdSmiException):
    def __init__(self, code):
        super().__init__(code)
        self.err_code = code
    def get_error_code(self):
        return self.err_code

def _step(function):
    if os.environ.get("FAKE_AMDSMI_HANG") == function:
        while True:
            time.sleep(60)
    if os.environ.get("FAKE_AMDSMI_CRASH") == function:
        os.abort()
    code = os.environ.get("FAKE_AMDSMI_RC_" + function)
    if code:
        raise AmdSmiLibraryException(int(code))

def amdsmi_init(flag=None):
    _step("amdsmi_init")

def amdsmi_shut_down():
    _step("amdsmi_shut_down")

def amdsmi_get_processor_handles():
    _step("amdsmi_get_processor_handles")
    return list(range(int(os.environ.get("FAKE_AMDSMI_COUNT", "1"))))

def amdsmi_get_gpu_asic_info(handle):
    _step("amdsmi_get_gpu_asic_info")
    return {
        "market_name": os.environ.get("FAKE_AMDSMI_NAME", "AMD Instinct MI300X"),
        "vendor_id": "0x1002", "device_id": "0x74a1", "target_graphics_version": "gfx942",
    }

def amdsmi_get_gpu_device_bdf(handle):
    _step("amdsmi_get_gpu_device_bdf")
    return f"0000:{handle + 3:02x}:00.0"

def amdsmi_get_gpu_device_uuid(handle):
    _step("amdsmi_get_gpu_device_uuid")
    return f"00000000-0000-1000-8000-{handle:012x}"

def amdsmi_get_gpu_vram_info(handle):
    _step("amdsmi_get_gpu_vram_info")
    return {"vram_type": "HBM", "vram_vendor": "SAMSUNG", "vram_size": 192 * 1024}

def amdsmi_get_gpu_driver_info(handle):
    _step("amdsmi_get_gpu_driver_info")
    return {"driver_name": "amdgpu", "driver_version": os.environ.get("FAKE_AMDSMI_DRIVER", "6.12.12")}
"""

_PYNVML = """
import time

class NVMLError(Exception):
    def __init__(self, value):
        super().__init__(value)
        self.value = value

class _Info:
    def __init__(self, **fields):
        self.__dict__.update(fields)

def _step(function):
    if os.environ.get("FAKE_NVML_HANG") == function:
        while True:
            time.sleep(60)
    if os.environ.get("FAKE_NVML_CRASH") == function:
        os.kill(os.getpid(), 11)
    code = int(os.environ.get("FAKE_NVML_RC_" + function, "0"))
    if code:
        raise NVMLError(code)

def nvmlInitWithFlags(flags):
    _step("nvmlInitWithFlags")

def nvmlShutdown():
    _step("nvmlShutdown")

def nvmlDeviceGetCount():
    _step("nvmlDeviceGetCount_v2")
    return int(os.environ.get("FAKE_NVML_COUNT", "1"))

def nvmlDeviceGetHandleByIndex(index):
    if os.environ.get("FAKE_NVML_LOST") == str(index):
        raise NVMLError(15)
    _step("nvmlDeviceGetHandleByIndex_v2")
    return index

def nvmlDeviceGetName(handle):
    _step("nvmlDeviceGetName")
    return os.environ.get("FAKE_NVML_NAME", "NVIDIA H100 80GB HBM3")

def nvmlDeviceGetUUID(handle):
    _step("nvmlDeviceGetUUID")
    return f"GPU-{handle:08x}-0000-0000-0000-000000000000"

def nvmlDeviceGetPciInfo(handle):
    _step("nvmlDeviceGetPciInfo_v3")
    return _Info(busId=f"00000000:{handle + 1:02X}:00.0")

def nvmlDeviceGetMemoryInfo(handle):
    _step("nvmlDeviceGetMemoryInfo")
    return _Info(total=80 << 30, free=80 << 30, used=0)

def nvmlDeviceGetCudaComputeCapability(handle):
    _step("nvmlDeviceGetCudaComputeCapability")
    return 9, 0

def nvmlSystemGetDriverVersion():
    _step("nvmlSystemGetDriverVersion")
    return os.environ.get("FAKE_NVML_DRIVER", "570.124.06")

def nvmlSystemGetCudaDriverVersion():
    _step("nvmlSystemGetCudaDriverVersion")
    return 12080
"""

# what the wheel does where libamd_smi.so is missing
_AMDSMI_NOISY = """
print("Unable to load libamd_smi.so library")
print("Please check that it is installed")
raise KeyError("amdsmi_init")
"""


def _torch(version: str, cuda: str | None = None, hip: str | None = None, xpu: str | None = None) -> dict[str, str]:
    return {
        "torch/__init__.py": _WIRE + _EXITS,
        "torch/version.py": _TORCH.format(version=version, cuda=cuda, hip=hip, xpu=xpu),
    }


KINDS: dict[str, dict[str, str]] = {
    "libtpu": {"libtpu/__init__.py": _WIRE + "def get_library_path():\n    return None\n"},
    "libtpu-raises": {"libtpu/__init__.py": _WIRE + "raise RuntimeError('no TPU runtime')\n"},
    "libtpu-exits": {"libtpu/__init__.py": _WIRE + _EXITS},
    "libtpu-hangs": {"libtpu/__init__.py": _WIRE + "import time\nwhile True:\n    time.sleep(60)\n"},
    "tpu-inference": {"tpu_inference/__init__.py": _WIRE + _EXITS},
    "amdsmi": {"amdsmi/__init__.py": _WIRE + _AMDSMI},
    "amdsmi-noisy": {"amdsmi/__init__.py": _WIRE + _AMDSMI_NOISY},
    "torch-cuda": _torch("2.10.0+cu128", cuda="12.8"),
    "torch-hip": _torch("2.10.0+rocm7.0", hip="7.0.51831"),
    "torch-xpu": _torch("2.10.0+xpu", xpu="20250201"),
    "torch-cpu": _torch("2.10.0+cpu"),
    "pynvml": {"pynvml.py": _WIRE + _PYNVML},
    "pynvml-shadow": {
        "pynvml/__init__.py": _WIRE + "def nvmlInit():\n    raise AttributeError('not NVIDIA\\'s pynvml')\n"
    },
    "zentorch": {"zentorch/__init__.py": _WIRE},
    "zentorch-oserror": {"zentorch/__init__.py": _WIRE + "raise OSError('undefined symbol: _ZN3c1010')\n"},
}
"""The fake modules: files and their text, by kind.

`pynvml` is NVIDIA's binding as far as a probe needs it, without a library behind it: `FAKE_NVML_COUNT`,
`FAKE_NVML_RC_<function>` (an error code), `FAKE_NVML_HANG=<function>`, `FAKE_NVML_CRASH=<function>`,
`FAKE_NVML_LOST=<index>`, `FAKE_NVML_NAME`, `FAKE_NVML_DRIVER`, as for the library of `vplug_rs.testing.libraries`.

`amdsmi` is scripted by the environment, read at each call: `FAKE_AMDSMI_COUNT`, `FAKE_AMDSMI_RC_<function>` (an error
code), `FAKE_AMDSMI_HANG=<function>`, `FAKE_AMDSMI_CRASH=<function>`, `FAKE_AMDSMI_NAME`, `FAKE_AMDSMI_DRIVER`.
"""


def fake_module(folder: str | os.PathLike[str], kind: str, text: Mapping[str, str] | None = None) -> str:
    """Writes a fake module into a folder that is to stand on the path.

    Args:
        folder: It is made where it is missing.
        kind: One of `KINDS`.
        text: Files that replace some of the kind's, or come with them: `{"torch/version.py": "..."}`.

    Returns:
        The path of the module's folder, or of its file.

    Raises:
        ValueError: There is no such kind.
    """
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is no kind of fake module; there are {', '.join(KINDS)}")
    files = {**KINDS[kind], **(text or {})}
    for name, content in files.items():
        _write(os.path.join(folder, *name.split("/")), content)
    return os.path.join(folder, next(iter(files)).partition("/")[0])


def fake_distribution(folder: str | os.PathLike[str], name: str, version: str) -> str:
    """Writes the metadata of an installed distribution into a folder; gives the metadata folder's path."""
    info = os.path.join(folder, f"{name.replace('-', '_')}-{version}.dist-info")
    _write(os.path.join(info, "METADATA"), f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return info


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)
