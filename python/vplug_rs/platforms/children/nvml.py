"""Asks NVML for its devices: `nvml BACKEND PYNVML CORE INTEGRATED`.

BACKEND is "auto", "pynvml" or "native"; PYNVML the path of the file `pynvml.py` or nothing; CORE the path of our own
extension or nothing; INTEGRATED "1" where the devices are known to share the host's memory. Both backends are asked by
one function, so that they make the same calls in the same order.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from vplug_rs.platforms.children.stage import Stage

LIBRARY = "libnvidia-ml.so.1"
LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND, NOT_SUPPORTED = 12, 13, 3
MOST_DEVICES = 256

PUBLIC = (
    "nvmlInitWithFlags", "nvmlShutdown", "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetName",
    "nvmlDeviceGetUUID", "nvmlDeviceGetPciInfo", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetCudaComputeCapability",
    "nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion",
)  # fmt: skip


class UnusableError(Exception):
    """A backend cannot do its work here, whatever the driver would say."""


class _Pynvml:
    """The backend that vLLM uses: nvidia-ml-py's module, by its public names. Answers are (code, value)."""

    name = "pynvml"
    inits = ("nvmlInitWithFlags",)

    def __init__(self, path: str, told: Callable[[BaseException], str]) -> None:
        from importlib.util import module_from_spec, spec_from_file_location

        if not path:
            raise UnusableError("pynvml is not installed")
        spec = spec_from_file_location("pynvml", path)
        if spec is None or spec.loader is None:
            raise UnusableError(f"{path} is no Python module")
        module = sys.modules["pynvml"] = module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException as error:
            raise UnusableError(f"{path} cannot be loaded: {told(error)}") from error
        missing = [name for name in PUBLIC if not callable(getattr(module, name, None))]
        self._error = getattr(module, "NVMLError", None)
        if missing or not (isinstance(self._error, type) and issubclass(self._error, Exception)):
            raise UnusableError(f"{path} is not nvidia-ml-py's: it has no {missing[0] if missing else 'NVMLError'}")
        self._module: Any = module
        self._handles: dict[int, Any] = {}

    def _coded(self, call: Callable[..., Any], *words: Any) -> tuple[int, Any]:
        assert self._error is not None
        try:
            return 0, call(*words)
        except self._error as error:
            code = getattr(error, "value", None)
            if not isinstance(code, int):
                raise
            return code, None

    def load(self) -> tuple[int, str]:
        """Open the library first, so that a hang in its constructor is told from one in its first function."""
        from ctypes import CDLL

        try:
            CDLL(LIBRARY)
        except OSError as error:
            return LIBRARY_NOT_FOUND, str(error)
        return 0, ""

    def init(self, _name: str) -> int:
        return self._coded(self._module.nvmlInitWithFlags, 0)[0]

    def shutdown(self) -> int:
        return self._coded(self._module.nvmlShutdown)[0]

    def count(self) -> tuple[int, int]:
        return self._coded(self._module.nvmlDeviceGetCount)

    def handle(self, index: int) -> int:
        code, self._handles[index] = self._coded(self._module.nvmlDeviceGetHandleByIndex, index)
        return code

    def device_name(self, index: int) -> tuple[int, str]:
        return self._coded(self._module.nvmlDeviceGetName, self._handles[index])

    def uuid(self, index: int) -> tuple[int, str]:
        return self._coded(self._module.nvmlDeviceGetUUID, self._handles[index])

    def pci(self, index: int) -> tuple[int, Any]:
        code, info = self._coded(self._module.nvmlDeviceGetPciInfo, self._handles[index])
        return code, code or info.busId

    def memory(self, index: int) -> tuple[int, Any]:
        code, info = self._coded(self._module.nvmlDeviceGetMemoryInfo, self._handles[index])
        return code, code or info.total

    def capability(self, index: int) -> tuple[int, tuple[int, int]]:
        return self._coded(self._module.nvmlDeviceGetCudaComputeCapability, self._handles[index])

    def driver(self) -> tuple[int, str]:
        return self._coded(self._module.nvmlSystemGetDriverVersion)

    def cuda(self) -> tuple[int, int]:
        return self._coded(self._module.nvmlSystemGetCudaDriverVersion)


def native(path: str, told: Callable[[BaseException], str]) -> Any:
    """Our own backend. It lives in the extension, which is loaded alone, without the package around it."""
    from importlib.machinery import ExtensionFileLoader, ModuleSpec

    if not path:
        raise UnusableError("our extension is not here")
    loader = ExtensionFileLoader("_core", path)
    try:
        module: Any = loader.create_module(ModuleSpec("_core", loader, origin=path))
        loader.exec_module(module)
        return module.Nvml(LIBRARY)
    except (ImportError, AttributeError) as error:
        raise UnusableError(f"{path} cannot be loaded: {told(error)}") from error


FIELDS = (
    ("name", "nvmlDeviceGetName", "device_name"),
    ("uuid", "nvmlDeviceGetUUID", "uuid"),
    ("pci", "nvmlDeviceGetPciInfo_v3", "pci"),
    ("memory", "nvmlDeviceGetMemoryInfo", "memory"),
    ("capability", "nvmlDeviceGetCudaComputeCapability", "capability"),
)


def ask(backend: Any, stage: Stage, *, integrated: bool, may_give_up: bool) -> None:
    """Make all calls, each announced before it is made, and say what they answer.

    Raises:
        UnusableError: Before anything was answered, where `may_give_up`: this backend lacks what the library has.
    """
    stage.say(call="dlopen", backend=backend.name)
    code, text = backend.load()
    if code:
        return stage.say(call="dlopen", error=code, note=text)
    try:
        begun, count = begin(backend, stage, may_give_up=may_give_up)
    except UnusableError:
        raise
    except Exception as error:
        raise UnusableError(f"{stage.call} raised {stage.told(error)}") from error
    if not begun:
        return None
    if count is not None:
        stage.say(count=count)
        for index in range(min(count, MOST_DEVICES)):
            ask_device(backend, stage, index, integrated=integrated)
        ask_field(stage, "driver", "nvmlSystemGetDriverVersion", backend.driver)
        ask_field(stage, "cuda", "nvmlSystemGetCudaDriverVersion", backend.cuda)
    stage.say(call="nvmlShutdown")
    if code := backend.shutdown():
        stage.say(call="nvmlShutdown", failed=code)
    return None


def begin(backend: Any, stage: Stage, *, may_give_up: bool) -> tuple[bool, int | None]:
    """Begin and count, and say what fails: whether it was begun, and how many devices there are."""
    code, name = FUNCTION_NOT_FOUND, ""
    for name in backend.inits:
        stage.say(call=name)
        if (code := backend.init(name)) != FUNCTION_NOT_FOUND:
            break
    if code == FUNCTION_NOT_FOUND and may_give_up:
        raise UnusableError(f"{LIBRARY} has no {name}, so the driver is old")
    if code:
        stage.say(call=name, error=code)
        return False, None
    name = "nvmlDeviceGetCount_v2"
    stage.say(call=name)
    code, count = backend.count()
    if code:
        stage.say(call=name, error=code)
        return True, None
    return True, count


def ask_device(backend: Any, stage: Stage, index: int, *, integrated: bool) -> None:
    """All of one device. What fails is said and fails nothing else."""
    name = "nvmlDeviceGetHandleByIndex_v2"
    stage.say(call=name, device=index)
    try:
        code = backend.handle(index)
    except Exception as error:  # noqa: BLE001  # a failing device never fails the list
        return stage.say(call=name, device=index, note=stage.told(error))
    if code:
        return stage.say(call=name, device=index, failed=code)
    for field, name, method in FIELDS:
        code, value = ask_field(stage, field, name, getattr(backend, method), index)
        if field == "name" and "GB10" in str(value):
            integrated = True
        if field == "memory" and code == NOT_SUPPORTED and integrated and (total := host_memory()) is not None:
            stage.say(device=index, memory=total, source="meminfo")
    return stage.say(device=index, integrated=integrated)


def ask_field(stage: Stage, field: str, name: str, get: Callable[..., tuple[int, Any]], *index: int) -> tuple[int, Any]:
    """Ask for one field, and say it, its error code, or what was raised."""
    where = {"device": index[0]} if index else {}
    stage.say(call=name, **where)
    try:
        code, value = get(*index)
        if not code:
            if isinstance(value, bytes):
                value = value.decode("utf-8", "replace")
            elif isinstance(value, tuple):
                value = ".".join(map(str, value))
            stage.say(**where, **{field: value})
    except Exception as error:  # noqa: BLE001  # a failing field never fails a device
        stage.say(**where, call=name, note=stage.told(error))
        return -1, None
    if code:
        stage.say(**where, call=name, failed=code)
    return code, value


def host_memory() -> int | None:
    """The host's memory in bytes, which an integrated device shares."""
    try:
        with open("/proc/meminfo", encoding="ascii", errors="replace") as stream:
            first, number, unit = stream.readline().split()
        return int(number) * 1024 if (first, unit) == ("MemTotal:", "kB") else None
    except (OSError, ValueError):
        return None


def main(stage: Stage, words: list[str]) -> None:
    """Ask by the backend that is wanted, or by the one that can."""
    wanted, pynvml, core, integrated = words
    shares = integrated == "1"
    if wanted != "native":
        try:
            return ask(_Pynvml(pynvml, stage.told), stage, integrated=shares, may_give_up=wanted == "auto")
        except UnusableError as reason:
            if wanted == "pynvml":
                return stage.say(unusable=str(reason))
            stage.say(note=f"{reason}; our own binding takes over")
    try:
        return ask(native(core, stage.told), stage, integrated=shares, may_give_up=False)
    except UnusableError as reason:
        return stage.say(unusable=str(reason))
