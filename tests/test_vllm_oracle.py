"""Compatible mode against vLLM's real modules: the same jobs to both on generated installations."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import vllm_source
from interpreters import clean_environment, shared_import_root
from oracle import vllm_differences, vllm_site

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVE = Path(__file__).resolve().parent / "oracle" / "vllm_serve.py"
PAIRS = int(os.environ.get("VPLUG_ORACLE_PAIRS", "200"))

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each job is answered in a forked child")


class Side:
    """A process that answers jobs."""

    def __init__(self, *words: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-B", "-W", "ignore", SERVE, *words],
            env=clean_environment(PYTHONPATH=str(shared_import_root())),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, job: Any) -> list[Any]:
        """Its answers to all operations of a job."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(job) + "\n")
        stdin.flush()
        answers: list[Any] = json.loads(stdout.readline())
        return answers

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def sides() -> Iterator[tuple[Side, Side]]:
    both = Side("theirs", str(vllm_source.modules())), Side("ours")
    yield both
    for side in both:
        side.close()


@pytest.mark.slow
@pytest.mark.timeout(60 + PAIRS)
def test_every_answer_is_vllms_or_mended_on_purpose(sides: tuple[Side, Side], tmp_path: Path) -> None:
    theirs, ours = sides
    seen: Counter[tuple[str, str]] = Counter()
    unexplained = []
    for seed in range(PAIRS):
        job = vllm_site.Maker(tmp_path / f"{seed}", seed).make()
        mended = vllm_site.Maker(tmp_path / f"{seed}-mended", seed, mend=True).make()
        verdicts = vllm_differences.judge((job, mended), theirs.ask(job), theirs.ask(mended), ours.ask(job))
        for (operation, *_), verdict in zip(job["operations"], verdicts, strict=True):
            if isinstance(verdict, str):
                seen[operation, verdict] += 1
            else:
                unexplained.append((seed, job["plugins"], verdict))
    print(f"{PAIRS} pairs: {dict(sorted(seen.items()))}")
    assert unexplained == []
    # it would say so of anything if it had asked nothing
    for operation in ("group", "general", "endpoint", "platform", "logits"):
        assert seen[operation, vllm_differences.SAME] > PAIRS / 10
        assert seen[operation, vllm_differences.MENDED] > 0
    assert seen["group", vllm_differences.DAMAGED] > 0


ANSWER = [["ok", [["x", "m:run"]]], [["import", "m"]], [["INFO", "available", "x"]]]


@pytest.mark.parametrize(
    "ours",
    [
        [["ok", [["y", "m:run"]]], *ANSWER[1:]],
        [["ok", [["x", "m:walk"]]], *ANSWER[1:]],
        [["raises", ["ValueError", "Exception"], "no"], *ANSWER[1:]],
        [ANSWER[0], [["import", "m"], ["import", "n"]], ANSWER[2]],
        [ANSWER[0], ANSWER[1], [["DEBUG", "available", "x"]]],
        [ANSWER[0], ANSWER[1], []],
    ],
)
def test_a_difference_that_nobody_can_explain_is_found(ours: list[Any]) -> None:
    jobs = ({"operations": [["group", "g"]], "faulty": []},) * 2
    (same,) = vllm_differences.judge(jobs, [ANSWER], [ANSWER], [ANSWER])
    (verdict,) = vllm_differences.judge(jobs, [ANSWER], [ANSWER], [ours])
    assert same == vllm_differences.SAME
    assert not isinstance(verdict, str)
