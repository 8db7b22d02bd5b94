"""The entry points by which a running vLLM comes to us: cheap, contained, and without effect unless VPLUG_VLLM is on.

`torch.backends` is asked by `import torch` in every process, before triton, pydantic, transformers and vLLM, and no
VLLM_PLUGINS keeps it out. `vllm.platform_plugins` is asked when vLLM looks for its platform; it comes second, for a
process whose torch does not load backends. The third door is `vplug run`.
"""

import os

_OFF = {"", "0", "off", "false", "no"}


def torch_backend() -> None:
    """What `import torch` calls; an exception here would fail that import."""
    _enter("torch.backends")


def platform() -> None:
    """What vLLM calls to learn of a platform: there is none."""
    _enter("vllm.platform_plugins")


def _enter(door: str) -> None:
    if os.environ.get("VPLUG_VLLM", "").strip().lower() in _OFF:
        return
    try:
        from vplug_rs.vllm.activation import activate

        activate(door)
    except Exception as error:  # noqa: BLE001  # the host runs as it would without us, and is told why
        import sys

        sys.stderr.write(f"vplug_rs takes no part in this vLLM: {type(error).__name__}: {error}\n")
