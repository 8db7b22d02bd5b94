"""What our test plugins share: each event is one line in $PROBE. And the plugins that need nothing of vLLM."""

from __future__ import annotations

import json
import multiprocessing
import os


def tell(event: str, **more: object) -> None:
    """Write an event down, with the process that it happened in."""
    path = os.environ.get("PROBE")
    if path:
        where = {"pid": os.getpid(), "process": multiprocessing.current_process().name}
        line = json.dumps({"event": event, **where, **more}) + "\n"
        with open(path, "ab", buffering=0) as stream:  # all processes write to one file: a line at once
            stream.write(line.encode())


def register() -> None:
    """`vllm.general_plugins`."""
    tell("general")


def platform() -> None:
    """`vllm.platform_plugins`: not ours."""
    tell("platform")


def io_processor() -> str:
    """`vllm.io_processor_plugins`."""
    tell("io_processor")
    return "probe_io.Backwards"


class Endpoint:
    """`vllm.endpoint_plugins`."""

    name = "probe"
    required_tasks = None

    def __init__(self) -> None:
        tell("endpoint")

    def attach_router(self, app: object) -> None:
        @app.get("/probe")  # type: ignore[attr-defined,untyped-decorator]
        async def probe() -> dict[str, int]:
            return {"pid": os.getpid()}

    async def init_state(self, engine_client: object, state: object, args: object) -> None:
        tell("endpoint_state", engine=type(engine_client).__name__)
