"""Whole decode steps in vLLM, in a child process of their own: `in_vllm` there, its environment and its answer here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vplug_logits.benchmark import figures, quiet
from vplug_logits.cache import readable
from vplug_logits.config import BACKEND
from vplug_logits.errors import BuildError
from vplug_logits.progress import Progress, silent

if TYPE_CHECKING:
    from vplug_logits.benchmark.timing import Plan

PROGRAM = "vplug_logits.benchmark.in_vllm"
MODE = "safe"
DTYPES = ("bfloat16", "float32")
_LIMIT = 900  # seconds
_STEERING = ("VLLM_", "VPLUG_")
_STEERING_KEPT = ("VLLM_CACHE_ROOT", BACKEND)
_SETTINGS = {  # one thread, which does not wait for others, and nothing that is compiled or sent
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "passive",
    "TORCHDYNAMO_DISABLE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "0",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
}


def run(model: str, plan: Plan, *, cache: str | None = None, progress: Progress = silent) -> list[dict[str, Any]]:
    """Measure a model in bfloat16 and in float32.

    Args:
        model: A folder or a hub id that is in the local cache.
        plan: Its rounds are the steps, its seed that of their order.
        cache: The folder of artefacts, or None: the user's cache.
        progress: Called with "vllm".

    Returns:
        For each dtype: model, dtype, mode, vllm (its version), steps, quiet (steps), dense_rows (states of ours that
        were answered densely); head and step (seconds of the processor by kind: median, min); over: a dense step over
        one of this kind (medians, ratio of minima).

    Raises:
        BuildError: There is no vLLM here, it does not start, or its head stays dense; with the reason.
    """
    if find_spec("vllm") is None:
        raise BuildError("vllm: it is not installed in this environment; measure where it is.")
    found = []
    for number, dtype in enumerate(DTYPES):
        found.append(_measured(model, dtype, plan, cache))
        progress("vllm", number + 1, len(DTYPES))
    return found


def _measured(model: str, dtype: str, plan: Plan, cache: str | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        result, log = Path(folder) / "result", Path(folder) / "log"
        words = [sys.executable, "-m", PROGRAM, model, dtype, str(plan.rounds), str(plan.seed), str(result)]
        with log.open("wb") as output:
            done = subprocess.run(  # noqa: S603  # this very package, in this very interpreter
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=_environment(cache),
                timeout=_LIMIT,
                check=False,
            )
        if done.returncode or not result.is_file():
            last = (log.read_text("utf-8", "replace").strip().splitlines() or ["nothing was said"])[-1]
            raise BuildError(f"vllm: {model} in {dtype} ended with status {done.returncode}: {last}")
        answer: dict[str, Any] = json.loads(result.read_text("utf-8"))
    return {"model": readable(model), "dtype": dtype, "mode": MODE, **_figures(answer)}


def _figures(answer: dict[str, Any]) -> dict[str, Any]:
    """Times that were measured side by side as medians, minima and ratios."""
    noisy = answer["noisy"]
    kept = {
        part: {kind: quiet.keep(values, noisy) for kind, values in answer[part].items()} for part in ("head", "step")
    }
    return {
        "vllm": answer["vllm"],
        "steps": len(noisy),
        "quiet": noisy.count(False),
        "dense_rows": answer["dense_rows"],
        **{part: {kind: figures.pair(values) for kind, values in times.items()} for part, times in kept.items()},
        "over": {kind: figures.ratio(kept["step"]["dense"], kept["step"][kind]) for kind in ("ours", "free")},
    }


def _environment(cache: str | None) -> dict[str, str]:
    """Nothing that steers vLLM or us but what is wanted here; the child finds this package where this process does."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_STEERING)}
    place = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, (place, os.environ.get("PYTHONPATH"))))
    ours = {"VPLUG_LOGITS": MODE, "VPLUG_LOGITS_BUILD": "wait", "PYTHONPATH": path}
    if cache is not None:
        ours["VPLUG_LOGITS_CACHE"] = cache
    steering = {name: os.environ[name] for name in _STEERING_KEPT if name in os.environ}
    return {**kept, **_SETTINGS, **steering, **ours}
