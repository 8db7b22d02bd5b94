"""A plugin as its host meets it: called in a fresh process, and held against the rules for vLLM's plugins.

from vplug_rs.testing import plugins

done = plugins.call("acme.plugin:register", path=["src"], times=2)
assert (done.error, done.frameworks, done.printed) == (None, [], "")
assert plugins.broken_rules(".") == []
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

SECONDS = 60.0

# what it writes goes into a file: stdout is the plugin's
_CHILD = """
import json, logging, os, sys
given = json.loads(sys.argv[1])
sys.path[:0] = given["path"]
class Handler(logging.Handler):
    def emit(self, record):
        told["logged"].append(record.getMessage())
before = dict(os.environ)
names = {"__name__": "before", "sys": sys}
told = {"answers": [], "error": None, "frameworks": [], "logged": [], "asked": None, "environment": []}
logging.getLogger().addHandler(Handler(logging.WARNING))
def plain(value):
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        return repr(value)
try:
    exec(given["before"], names)
    module, _, attribute = given["value"].partition(":")
    found = __import__(module, fromlist=["x"])
    for name in attribute.split("."):
        found = getattr(found, name)
    for _ in range(given["times"]):
        told["answers"].append(plain(found()))
    told["asked"] = plain(eval(given["ask"], names))
except BaseException as error:
    told["error"] = f"{type(error).__name__}: {error}"
told["frameworks"] = sorted(sys.modules.keys() & given["frameworks"])
told["environment"] = sorted(key for key in before.keys() | os.environ.keys() if before.get(key) != os.environ.get(key))
with open(given["out"], "w", encoding="utf-8") as file:
    json.dump(told, file)
"""


class Outcome:
    """What became of a plugin in a process of its own.

    Attributes:
        answers: What each call gave; what JSON cannot say is given as its `repr`.
        environment: The variables that it has set, changed or deleted, in alphabetical order.
        error: Type and text of what was raised, `SystemExit` included; None where nothing was.
        frameworks: The frameworks that were imported by the end, in alphabetical order.
        logged: What was logged as a warning or worse.
        printed: What was written to stdout.
        asked: The value of `ask` at the end.
    """

    __slots__ = ("answers", "asked", "environment", "error", "frameworks", "logged", "printed")

    def __init__(self, told: dict[str, Any], printed: str) -> None:
        self.answers: list[Any] = told["answers"]
        self.environment: list[str] = told["environment"]
        self.error: str | None = told["error"]
        self.frameworks: list[str] = told["frameworks"]
        self.logged: list[str] = told["logged"]
        self.asked: Any = told["asked"]
        self.printed = printed

    def __repr__(self) -> str:
        return f"<Outcome {', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)}>"


def call(  # noqa: PLR0913  # keywords of one call
    value: str,
    *,
    path: Sequence[str | os.PathLike[str]],
    environment: Mapping[str, str] | None = None,
    times: int = 1,
    before: str = "",
    ask: str = "None",
    seconds: float = SECONDS,
) -> Outcome:
    """Import what an entry point names in a fresh process, and call it without arguments, as vLLM does.

    Args:
        value: As in the entry point, `module:attribute`.
        path: The folders that come first on the path.
        environment: Variables, beside those of this process.
        times: How often to call it; 0 only imports it.
        before: A program that runs first.
        ask: An expression that is evaluated at the end, with `sys` and the names of `before`.
        seconds: How long all of it may take.

    Raises:
        TimeoutError: It took longer; the process is killed.
        ChildProcessError: The process ended without an answer.
    """
    from vplug_rs.authoring.at_import import HEAVY

    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "told.json")
        given = {
            "path": [*map(os.path.abspath, path), *filter(None, sys.path)],
            "frameworks": sorted(HEAVY),
            "value": value,
            "times": times,
            "before": before,
            "ask": ask,
            "out": out,
        }
        try:
            done = subprocess.run(  # noqa: S603  # the author's own plugin
                [sys.executable, "-P", "-c", _CHILD, json.dumps(given)],
                env={**os.environ, **(environment or {})},
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"`{value}` took longer than {seconds:g} seconds") from None
        if not os.path.exists(out):
            raise ChildProcessError(f"`{value}` ended its process with status {done.returncode}: {done.stderr[-2000:]}")
        with open(out, encoding="utf-8") as file:
            return Outcome(json.load(file), done.stdout)


def broken_rules(folder: str | os.PathLike[str]) -> list[str]:
    """Which rules a plugin breaks, one line for each: what `vplug check` finds.

    Args:
        folder: The folder of its pyproject.toml.

    Raises:
        VplugError: There is nothing to check.
    """
    from vplug_rs.authoring import lint, project

    found = lint.check(project.read(os.fspath(folder))).findings
    return [f"{each.path}:{each.line or 1}: {each.code}: {each.message}" for each in found]
