"""Asks AMD's SMI for its devices: `amdsmi FILE`, FILE being the module, or the `__init__.py` of the package.

The import itself is the risk: it looks up 184 symbols, prints on stdout, and raises KeyError where the library is
missing.
"""

from __future__ import annotations

import sys
from os.path import basename, dirname

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from vplug_rs.platforms.children.stage import Stage

MEGABYTE = 1024 * 1024
MOST_DEVICES = 256


def load(path: str) -> Any:
    """The module, by its path: no other folder takes part."""
    from importlib.util import module_from_spec, spec_from_file_location

    folders = [dirname(path)] if basename(path) == "__init__.py" else None
    spec = spec_from_file_location("amdsmi", path, submodule_search_locations=folders)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python module")
    module = sys.modules["amdsmi"] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ask(amdsmi: Any, stage: Stage) -> None:
    """Make all calls, each announced before it is made, and say what they answer."""
    stage.say(call="amdsmi_init")
    try:
        amdsmi.amdsmi_init()
        call = "amdsmi_get_processor_handles"
        stage.say(call=call)
        handles = amdsmi.amdsmi_get_processor_handles()
    except Exception as error:  # noqa: BLE001  # its exceptions have no name that is sure to be there
        return refuse(stage, error)
    stage.say(count=len(handles))
    for index, handle in enumerate(handles[:MOST_DEVICES]):
        ask_device(amdsmi, stage, index, handle)
    stage.say(call="amdsmi_shut_down")
    try:
        amdsmi.amdsmi_shut_down()
    except Exception as error:  # noqa: BLE001  # as above
        stage.say(call="amdsmi_shut_down", note=stage.told(error))
    return None


def ask_device(amdsmi: Any, stage: Stage, index: int, handle: Any) -> None:
    """All of one device. What fails is said and fails nothing else."""
    for call, fields in (
        ("amdsmi_get_gpu_asic_info", {"name": "market_name", "capability": "target_graphics_version"}),
        ("amdsmi_get_gpu_device_uuid", {"uuid": ""}),
        ("amdsmi_get_gpu_device_bdf", {"pci": ""}),
        ("amdsmi_get_gpu_vram_info", {"memory": "vram_size"}),
        ("amdsmi_get_gpu_driver_info", {"driver": "driver_version"}),
    ):
        stage.say(call=call, device=index)
        try:
            answer = getattr(amdsmi, call)(handle)
            for field, key in fields.items():
                value = answer[key] if key else answer
                if field == "memory":
                    stage.say(device=index, memory=int(value) * MEGABYTE, source="amdsmi")
                elif value and value != "N/A":
                    stage.say(device=index, **{field: str(value)})
        except Exception as error:  # noqa: BLE001  # a failing field never fails a device
            stage.say(device=index, call=call, note=stage.told(error))


def refuse(stage: Stage, error: Exception) -> None:
    """Say why there is no list: by the library's code, where the exception has one."""
    try:
        code = error.get_error_code()  # type: ignore[attr-defined]  # if it is the library's
    except Exception:  # noqa: BLE001  # or any other
        code = None
    if isinstance(code, int):
        return stage.say(error=code, note=stage.told(error))
    return stage.say(unusable=stage.told(error))


def main(stage: Stage, words: list[str]) -> None:
    """Load it, ask it."""
    stage.say(call="import amdsmi", backend="amdsmi")
    try:
        module = load(words[0])
    except BaseException as error:  # noqa: BLE001  # KeyError and SystemExit have been seen
        return stage.say(unusable=f"amdsmi cannot be imported: {stage.told(error)}")
    return ask(module, stage)
