"""Imported by `site` in every Python process below `vplug run` and `vplug trace`: install quietly, then make room.

The program must see what it would see without us: `sys.path` without this folder, and its own `sitecustomize`, or
none. Any Python may get here through the environment, so the syntax is that of 2.7 and failures are silent.
"""

import os
import sys


def _install():
    if sys.version_info < (3, 11):
        return
    try:
        folder = os.environ.get("VPLUG_TRACE")
        if folder:
            from vplug_rs.tracing.recorder import start

            start(folder)
        else:
            import vplug_rs

            vplug_rs.install()
    except Exception:  # an environment without us, or one that we do not fit: the program runs as before
        return


_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if entry != _here]
sys.path_importer_cache.pop(_here, None)
_this = sys.modules.pop("sitecustomize", None)  # a name keeps it alive: 2.7 empties a module that dies
_install()

# Without one this raises, as the first look-up would have, and `site` takes it for what it is.
import sitecustomize  # noqa: F401
