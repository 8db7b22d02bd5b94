"""What probes and plugins answered -> one platform, or a reasoned refusal.

The rule is vLLM's: an out-of-tree platform wins over every built-in one; two of a kind are an error. Each is asked
once, and an answer that names no class counts as a failure, not as a platform.
"""

from __future__ import annotations

from vplug_rs import env
from vplug_rs.errors import VplugError
from vplug_rs.groups import wrong_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from vplug_rs.platforms.model import Probe


class PlatformError(VplugError, RuntimeError):
    """Several platforms are active, and nothing says which one is meant; or the one that is meant is not known.

    A traceback of it shows the hint, too: it most often ends a program that is not ours.

    Attributes:
        plugins: What `resolve` had heard from plugins by then, one `Probe` each.
        warnings: What somebody should look at besides.
    """

    exit_status = 2
    plugins: Sequence[Probe] = ()
    warnings: Sequence[str] = ()

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        if hint:  # here and not where it is raised: those who wait for one answer raise the same error
            self.add_note(hint)


class PlatformUnknownError(PlatformError):
    """A driver did not answer, and `VPLUG_ON_UNKNOWN` says that this is an error."""

    exit_status = 3


class PlatformAbsentError(PlatformError):
    """The platform that is ordered is not here, or there is none to be used."""

    exit_status = 1


class PlatformLoadError(PlatformError):
    """The platform's class cannot be imported or made. `qualname` is its dotted name.

    Args:
        message: One sentence that names platform and class.
        qualname: The dotted name.
        hint: The next step.
    """

    exit_status = 1

    def __init__(self, message: str, *, qualname: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.qualname = qualname


class Answer:
    """What one platform said when it was asked.

    Attributes:
        name: Its name, or that of its entry point.
        builtin: Whether it is the host's own.
        qualname: The dotted name of its class; None if it declined or failed.
        error: What it raised, or what is wrong with its answer; None otherwise.
        fix: What its author has to do about such an answer.
        whose: The distribution and version of a plugin, for people.
    """

    __slots__ = ("builtin", "error", "fix", "name", "qualname", "whose")

    def __init__(
        self, name: str, found: Any = None, *, builtin: bool, error: BaseException | None = None, whose: str = ""
    ) -> None:
        self.name, self.builtin, self.whose = name, builtin, whose
        self.error, self.fix = error, ""
        self.qualname: str | None = None
        if error is None:
            wrong = wrong_name(found)
            if wrong is None:
                self.qualname = found
            else:
                self.error, self.fix = TypeError(wrong[0]), wrong[1]

    def __repr__(self) -> str:
        said = self.qualname or (f"{type(self.error).__name__}: {self.error}" if self.error else "declined")
        return f"<Answer {self.name!r}: {said}>"


def ask(probes: Mapping[str, Callable[[], Any]]) -> list[Answer]:
    """Asks built-in probes, each once; what one raises is its answer."""
    answers = []
    for name, probe in probes.items():
        try:
            found = probe()
        except (Exception, SystemExit) as error:  # noqa: BLE001  # it is recorded, and the others are asked
            answers.append(Answer(name, builtin=True, error=error))
        else:
            answers.append(Answer(name, found, builtin=True))
    return answers


def choose(answers: Iterable[Answer]) -> Answer | None:
    """The platform that counts, or None if none is active.

    Raises:
        PlatformError: two plugins, or without a plugin two built-in ones, are active.
    """
    active = [answer for answer in answers if answer.qualname is not None]
    for builtin in (False, True):
        # as in `resolution`: who stands first must not depend on what is installed beside
        those = sorted(
            (answer for answer in active if answer.builtin is builtin), key=lambda answer: (answer.name, answer.whose)
        )
        if len(those) > 1:
            names = ", ".join(f"{one.name}" + (f" of {one.whose}" if one.whose else "") for one in those)
            hint = f"Say which one is meant: {env.PLATFORM}={those[0].name}, or {those[1].name}."
            raise PlatformError(f"Only one platform plugin can be activated, but got: [{names}]", hint=hint)
        if those:
            return those[0]
    return None
