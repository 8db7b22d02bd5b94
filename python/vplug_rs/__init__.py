"""Plugin discovery that starts as fast as the file system allows and is never stale.

    import vplug_rs
    vplug_rs.entry_points(group="console_scripts")

`vplug_rs.metadata` is the drop-in for `importlib.metadata`; this package re-exports all of it but `metadata()`,
whose name is the module's. `install()` accelerates the genuine `importlib.metadata` in place.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vplug_rs._core import Diagnostic as Diagnostic
    from vplug_rs.errors import LoadCycleError as LoadCycleError
    from vplug_rs.errors import LoadTimeoutError as LoadTimeoutError
    from vplug_rs.errors import PluginKindError as PluginKindError
    from vplug_rs.errors import PluginLoadError as PluginLoadError
    from vplug_rs.errors import PluginNotFoundError as PluginNotFoundError
    from vplug_rs.errors import PluginRefusedError as PluginRefusedError
    from vplug_rs.errors import PluginWarning as PluginWarning
    from vplug_rs.errors import PolicyError as PolicyError
    from vplug_rs.errors import VplugError as VplugError
    from vplug_rs.importlib_patch import install as install
    from vplug_rs.loader import PluginLoader as PluginLoader
    from vplug_rs.metadata import (
        Distribution as Distribution,
    )
    from vplug_rs.metadata import (
        EntryPoint as EntryPoint,
    )
    from vplug_rs.metadata import (
        EntryPoints as EntryPoints,
    )
    from vplug_rs.metadata import (
        PackageNotFoundError as PackageNotFoundError,
    )
    from vplug_rs.metadata import (
        diagnostics as diagnostics,
    )
    from vplug_rs.metadata import (
        distribution as distribution,
    )
    from vplug_rs.metadata import (
        distributions as distributions,
    )
    from vplug_rs.metadata import (
        entry_points as entry_points,
    )
    from vplug_rs.metadata import (
        files as files,
    )
    from vplug_rs.metadata import (
        invalidate_caches as invalidate_caches,
    )
    from vplug_rs.metadata import (
        packages_distributions as packages_distributions,
    )
    from vplug_rs.metadata import (
        requires as requires,
    )
    from vplug_rs.metadata import (
        version as version,
    )
    from vplug_rs.platforms.answers import PlatformError as PlatformError
    from vplug_rs.platforms.current import get_platform as get_platform
    from vplug_rs.policy import Policy as Policy
    from vplug_rs.vllm.functions import load_general_plugins as load_general_plugins
    from vplug_rs.vllm.functions import load_plugins_by_group as load_plugins_by_group

__all__ = [
    "Diagnostic",
    "Distribution",
    "EntryPoint",
    "EntryPoints",
    "LoadCycleError",
    "LoadTimeoutError",
    "PackageNotFoundError",
    "PlatformError",
    "PluginKindError",
    "PluginLoadError",
    "PluginLoader",
    "PluginNotFoundError",
    "PluginRefusedError",
    "PluginWarning",
    "Policy",
    "PolicyError",
    "VplugError",
    "diagnostics",
    "distribution",
    "distributions",
    "entry_points",
    "files",
    "get_platform",
    "install",
    "invalidate_caches",
    "load_general_plugins",
    "load_plugins_by_group",
    "packages_distributions",
    "requires",
    "version",
]

_ELSEWHERE = {
    "Diagnostic": "_core",
    "Policy": "policy",
    "install": "importlib_patch",
    "PlatformError": "platforms.answers",
    "get_platform": "platforms.current",
    "PluginLoader": "loader",
    **dict.fromkeys(("load_general_plugins", "load_plugins_by_group"), "vllm.functions"),
    **dict.fromkeys(
        (
            "LoadCycleError",
            "LoadTimeoutError",
            "PluginKindError",
            "PluginLoadError",
            "PluginNotFoundError",
            "PluginRefusedError",
            "PluginWarning",
            "PolicyError",
            "VplugError",
        ),
        "errors",
    ),
}


def __getattr__(name: str) -> object:
    # nothing is loaded until it is used, not even the extension: where that does not load, hosts that only look at our
    # entry points (`vplug_rs.vllm.doors`) must not fail
    if name == "__version__":
        from vplug_rs import _core

        return _core.build_info()["version"]
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # a submodule is bound here when it is first loaded, so this never asks twice for one that is
    module = __import__(f"vplug_rs.{_ELSEWHERE.get(name, 'metadata')}", fromlist=[name])
    value = getattr(module, name)
    if name != "PackageNotFoundError":  # the genuine class, which tests may import anew
        globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
