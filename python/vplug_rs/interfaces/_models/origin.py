"""Who registered a model: the file and line of the call, the distribution, and whether a plugin of vLLM's made it.

What a general or platform plugin does, vLLM does in each of its processes; what anything else does is done here alone.
"""

from __future__ import annotations

import sys

from vplug_rs import _core, metadata
from vplug_rs.groups import GENERAL, PLATFORM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

_PACKAGE = __name__.partition(".")[0]
# the functions below which plugins run that vLLM calls in every process: its own, and ours in their place
_EVERYWHERE = {
    ("vllm.plugins", "load_general_plugins"): GENERAL,
    ("vllm.platforms", "resolve_current_platform_cls_qualname"): PLATFORM,
    ("vplug_rs.vllm.functions", "load_general_plugins"): GENERAL,
    ("vplug_rs.vllm.functions", "resolve_platform"): PLATFORM,
}


class Origin:
    """Where a registration comes from.

    Attributes:
        file, line: The call.
        module: The module that it stands in.
        group: The group of the plugin that made it, or an empty text for one that no plugin made.
        owner: The distribution, with its version if one is installed, or None. Looked up when it is asked for.
    """

    __slots__ = ("_asked", "_calls", "_owner", "file", "group", "line", "module")

    def __init__(self, frame: FrameType, group: str, calls: list[tuple[str, str]], owner: str | None) -> None:
        self.file, self.line, self.module = frame.f_code.co_filename, frame.f_lineno, _module(frame)
        self.group, self._calls, self._owner, self._asked = group, calls, owner, False

    @classmethod
    def of_caller(cls, owner: str | None = None) -> Origin:
        """The first caller outside this package.

        Args:
            owner: Its distribution, if it is another than that of the calling module.
        """
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_back is not None and _module(frame).partition(".")[0] == _PACKAGE:
            frame = frame.f_back
        assert frame is not None
        group, calls, outer = "", [], frame
        while True:
            place = (_module(outer), outer.f_code.co_name)
            group = group or _EVERYWHERE.get(place, "")
            if group or outer.f_back is None:
                break
            calls.append((place[0], outer.f_code.co_qualname))
            outer = outer.f_back
        if not group and any(key[0] == GENERAL for key, _ in _core.running_here()):
            group = GENERAL  # by a `PluginLoader` of somebody's own
        return cls(frame, group, calls, owner)

    @property
    def owner(self) -> str | None:
        """See the class."""
        if not self._asked:
            self._owner, self._asked = _with_version(self._owner or self._distribution()), True
        return self._owner

    @property
    def is_everywhere(self) -> bool:
        """Whether every process of vLLM makes the same call."""
        return bool(self.group)

    def __str__(self) -> str:
        at = f"{self.file}:{self.line}"
        if self.owner is not None:
            return f"{self.owner} (`{at}`)"
        return f"`{at}`" + (" (a script)" if self.module in {"__main__", "__mp_main__"} else "")

    def _distribution(self) -> str | None:
        """The distribution whose plugin's function is among the callers, or else the one that has the module."""
        if self.group:
            for point in metadata.entry_points(group=self.group):
                if (point.module, point.attr) in self._calls and point.dist is not None:
                    return str(point.dist.name)
        names = metadata.packages_distributions().get(self.module.partition(".")[0], ())
        return names[0] if names else None


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__"))


def _with_version(name: str | None) -> str | None:
    if name is None:
        return None
    try:
        return f"{name} {metadata.version(name)}"
    except (metadata.PackageNotFoundError, ValueError):  # given by the caller, and installed or not
        return name
