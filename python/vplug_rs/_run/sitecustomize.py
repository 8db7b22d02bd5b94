"""Imported by `site` in every Python process below `vplug run` and `vplug trace`: do what they ask, then make room.

The program must see what it would see without us: `sys.path` without this folder, and its own `sitecustomize`, or
none. Any Python may get here through the environment, so the syntax is that of 2.7 and failures are silent.
"""

import os
import sys


def _trace():
    folder = os.environ.get("VPLUG_TRACE")
    if folder:
        from vplug_rs.tracing.recorder import start

        start(folder)


def _install():
    if os.environ.get("VPLUG_RUN"):
        import vplug_rs

        vplug_rs.install()


def _join():
    if os.environ.get("VPLUG_RUN") and os.environ.get("VPLUG_VLLM"):
        from vplug_rs.vllm.activation import activate

        activate("vplug run")


def _begin():
    if sys.version_info < (3, 11):
        return
    for step in (_trace, _install, _join):  # in this order: `install` takes what it finds for the genuine thing
        try:
            step()
        except Exception:  # noqa: S112  # no vplug_rs here, or one that does not fit: the program runs as before
            continue


_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if entry != _here]
sys.path_importer_cache.pop(_here, None)
_this = sys.modules.pop("sitecustomize", None)  # a name keeps it alive: 2.7 empties a module that dies
_begin()

# Without one this raises, as the first look-up would have, and `site` takes it for what it is.
import sitecustomize  # noqa: F401
