"""The part of a start that loads general plugins, for several environments: start.py MODEL CASES RESULT.

CASES is a list of environments as JSON. vLLM is imported once, and each case goes on in a child of its own, so that a
case costs no start. The log of a case is between its two marks on stderr.
"""

from __future__ import annotations

import json
import os
import sys
import traceback

from vllm.engine.arg_utils import EngineArgs


def case(model: str, environment: dict[str, str]) -> str:
    """What became of one start: its exception as a traceback ends with it, or "started"."""
    os.environ.update(environment)
    try:
        EngineArgs(model=model)
    except BaseException as error:
        return "".join(traceback.format_exception_only(error))
    return "started"


def in_child(model: str, environment: dict[str, str]) -> str:
    """The same in a child."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, case(model, environment).encode())
        sys.stderr.flush()
        os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as stream:
        answer = stream.read()
    os.waitpid(child, 0)
    return answer


def main(model: str, cases: str, result: str) -> None:
    """Run all cases."""
    answers = []
    for number, environment in enumerate(json.loads(cases)):
        os.write(2, f"<case {number}>\n".encode())
        answers.append(in_child(model, environment))
        os.write(2, f"</case {number}>\n".encode())
    with open(result, "w", encoding="utf-8") as stream:
        json.dump(answers, stream)


if __name__ == "__main__":
    main(*sys.argv[1:])
