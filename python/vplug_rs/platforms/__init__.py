"""Which accelerator is here: evidence for and against each platform, and the one that counts.

Evidence is gathered from files (`_core.probe_passive`), then by children with a deadline; no driver's library is ever
opened in this process, and nothing of it is changed.

    from vplug_rs import platforms
    for probe in platforms.probe():
        print(probe.platform, probe.status, probe.reason)
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vplug_rs.platforms.answers import PlatformError as PlatformError
    from vplug_rs.platforms.current import get_platform as get_platform
    from vplug_rs.platforms.model import Device as Device
    from vplug_rs.platforms.model import Evidence as Evidence
    from vplug_rs.platforms.model import Probe as Probe
    from vplug_rs.platforms.model import Resolution as Resolution
    from vplug_rs.platforms.probing import probe as probe
    from vplug_rs.platforms.resolution import resolve as resolve

__all__ = ["Device", "Evidence", "PlatformError", "Probe", "Resolution", "get_platform", "probe", "resolve"]

_ELSEWHERE = {
    "PlatformError": "answers",
    "get_platform": "current",
    "probe": "probing",
    "resolve": "resolution",
    **dict.fromkeys(("Device", "Evidence", "Probe", "Resolution"), "model"),
}


def __getattr__(name: str) -> object:
    # most who import this package want one of its rooms, and load no other
    if name not in _ELSEWHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(__import__(f"{__name__}.{_ELSEWHERE[name]}", fromlist=[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
