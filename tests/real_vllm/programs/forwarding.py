"""What vLLM forwards to Ray's workers, by its own functions: forwarding.py RESULT [ray].

With `ray`, a worker of a local cluster is asked what it has. The cluster is started without our variables, as on
another machine, and gets them as vLLM's executor sends them: some before the worker's first import, the others later.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

OURS = {name: os.environ.pop(name) for name in sorted(os.environ) if name.startswith("VPLUG_")}
if "ray" in sys.argv[2:]:
    import ray

    ray.init(num_cpus=1, include_dashboard=False, object_store_memory=100 << 20, logging_level="warning")
os.environ.update(OURS)

from vllm.envs import environment_variables  # noqa: E402  our variables have to be back
from vllm.ray.ray_env import get_env_vars_to_copy  # noqa: E402
from vllm.v1.executor.ray_env_utils import update_runtime_env_for_worker_import  # noqa: E402


class Worker:
    """What runs in a worker of the cluster."""

    def begin(self) -> dict[str, str]:
        import torch  # noqa: F401  as the first import of vLLM does

        return {name: value for name, value in os.environ.items() if name.startswith("VPLUG_")}

    def load(self, environment: dict[str, str]) -> Any:
        os.environ.update(environment)
        from vllm.plugins import load_general_plugins

        load_general_plugins()
        activation = sys.modules.get("vplug_rs.vllm.activation")
        return activation and activation.state().state


def in_worker(runtime: dict[str, Any], names: set[str]) -> list[Any]:
    """What a worker has before its first import, and what becomes of us in it."""
    worker = ray.remote(Worker).options(runtime_env=runtime).remote()
    sent = {name: os.environ[name] for name in names if name in os.environ}
    found = [ray.get(worker.begin.remote()), ray.get(worker.load.remote(sent))]
    ray.shutdown()
    return found


def main(result: str, *words: str) -> None:
    """Ask vLLM, and then a worker."""
    names = get_env_vars_to_copy(destination="workers")
    runtime = update_runtime_env_for_worker_import({})
    answer = {
        "ours": sorted(name for name in names if name.startswith("VPLUG_")),
        "others": sorted(name for name in names - set(environment_variables) if not name.startswith("VPLUG_")),
        "early": sorted(runtime.get("env_vars", {})),
        "worker": in_worker(runtime, names) if words else None,
    }
    with open(result, "w", encoding="utf-8") as stream:
        json.dump(answer, stream)


if __name__ == "__main__":
    main(*sys.argv[1:])
