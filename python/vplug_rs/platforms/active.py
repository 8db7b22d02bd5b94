"""What a vendor's library said of its devices, put together from the events of a child.

In: `isolated.End`. Out: `Answer`. Events come from a process in which anything can have happened, so nothing in them
is taken on trust.
"""

from __future__ import annotations

from vplug_rs import report
from vplug_rs.platforms.model import NOT_ASKED, UNKNOWN, Device, _Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from vplug_rs.platforms.isolated import End

ANSWERED, ERROR = "answered", "error"
"""The library told its number of devices, or gave an error code in its place. Else the outcome is `UNKNOWN`."""

MOST_DEVICES = 1024
MOST_NOTES = 32
"""What is kept of what went wrong, of each device and beside them; a library that repeats itself says nothing more."""

_LONGEST = 1000


class Answer(_Record):
    """What came of asking.

    Attributes:
        outcome: `ANSWERED`, `ERROR` or `UNKNOWN`. A number that was told counts, whatever became of the child later.
        count: The number of devices, where it was told.
        devices: One for each that was counted; one that could not be asked has the status `UNKNOWN`.
        code: The library's error code, where the outcome is `ERROR`.
        call: The call that gave it, or the last one that was begun.
        text: All that in one sentence.
        backend: Who asked: "pynvml", "native", "amdsmi", "libcuda".
        driver: The driver's version.
        cuda: The CUDA version that the driver can do, "12.8".
        notes: What went wrong without changing the outcome.
        ms: What it took, in milliseconds.
        cut_short: Whether the child ended before all calls were made.
    """

    __slots__ = (  # noqa: RUF023
        "outcome", "count", "devices", "code", "call", "text", "backend", "driver", "cuda", "notes", "ms", "cut_short",
    )  # fmt: skip

    def __init__(self, outcome: str, backend: str, **fields: Any) -> None:
        self.outcome, self.backend = outcome, backend
        self.count: int | None = fields.pop("count", None)
        self.devices: list[Device] = list(fields.pop("devices", ()))
        self.code: int | None = fields.pop("code", None)
        self.call: str = fields.pop("call", "")
        self.text: str = fields.pop("text", "")
        self.driver: str | None = fields.pop("driver", None)
        self.cuda: str | None = fields.pop("cuda", None)
        self.notes: list[str] = list(fields.pop("notes", ()))
        self.ms: float = fields.pop("ms", 0.0)
        self.cut_short: bool = fields.pop("cut_short", False)
        if fields:
            raise TypeError(f"an answer has no {', '.join(fields)}")


def job_words(who: str, *words: str) -> list[str]:
    """The command line of a child: an interpreter that reads no environment, no site, and writes no bytecode."""
    import os

    from vplug_rs.platforms.isolated import interpreter

    stage = os.path.join(os.path.dirname(os.path.abspath(__file__)), "children", "stage.py")
    return [interpreter(), "-I", "-S", "-B", stage, who, *words]


def read(end: End, *, library: str, backend: str, errors: Mapping[int, str]) -> Answer:
    """Make an answer of what a child said before its end.

    Args:
        end: How the child ended.
        library: What the library is called in sentences.
        backend: Who was to ask, until the child says who did.
        errors: The names of the library's error codes.
    """
    story = _Story(library, errors)
    for event in end.events:
        story.take(event)
    return story.answer(end, backend)


def named(code: int, errors: Mapping[int, str]) -> str:
    """An error code with its name, if it has one."""
    return f"{code} ({errors[code]})" if code in errors else str(code)


class _Story:
    """The events so far."""

    def __init__(self, library: str, errors: Mapping[int, str]) -> None:
        self.library, self.errors = library, errors
        self.backend: str | None = None
        self.count: int | None = None
        self.code: int | None = None
        self.call = ""
        self.place = ""
        self.unusable: str | None = None
        self.driver: str | None = None
        self.cuda: str | None = None
        self.notes: list[str] = []
        self.fields: dict[int, dict[str, Any]] = {}
        self.troubles: dict[int, list[str]] = {}
        self.done = False

    def take(self, event: dict[str, Any]) -> None:
        """Take what an event has of the right kind; leave the rest."""
        index = _number(event, "device")
        call = _text(event, "call")
        if call is not None and self.code is None:
            self.call, self.place = call, call if index is None else f"{call} of device {index}"
        self.backend = _text(event, "backend") or self.backend
        self.done = self.done or event.get("done") is True
        if index is None:
            self._take_of_all(event)
        elif 0 <= index < MOST_DEVICES:
            self._take_of_device(index, event)

    def _take_of_all(self, event: dict[str, Any]) -> None:
        if (code := _number(event, "error")) is not None and self.code is None:
            self.code = code
        if (count := _number(event, "count")) is not None and 0 <= count <= MOST_DEVICES:
            self.count = count
        if (failed := _number(event, "failed")) is not None:
            self.notes.append(f"{self.library} gave error {named(failed, self.errors)} at {self.call}")
        if (note := _text(event, "note")) is not None:
            self.notes.append(note)
        del self.notes[MOST_NOTES:]
        self.unusable = _text(event, "unusable") or self.unusable
        self.driver = _text(event, "driver") or self.driver
        if (version := _number(event, "cuda")) is not None and version > 0:
            self.cuda = f"{version // 1000}.{version % 1000 // 10}"

    def _take_of_device(self, index: int, event: dict[str, Any]) -> None:
        fields = self.fields.setdefault(index, {})
        troubles = self.troubles.setdefault(index, [])
        for name in ("name", "uuid", "capability", "driver"):
            if (text := _text(event, name)) is not None:
                fields[name] = text
        if (pci := _text(event, "pci")) is not None:
            fields["pci"] = _address(pci)
        if (memory := _number(event, "memory")) is not None and memory > 0:
            fields["memory_bytes"], fields["memory_source"] = memory, _text(event, "source") or "nvml"
        if isinstance(event.get("integrated"), bool):
            fields["integrated"] = event["integrated"] or None
        if (failed := _number(event, "failed")) is not None:
            troubles.append(f"{self.library} gave error {named(failed, self.errors)} at {self.call}")
            if failed == _code(self.errors, "GpuIsLost") or "HandleByIndex" in self.call:
                fields["status"] = UNKNOWN
        if (note := _text(event, "note")) is not None:
            troubles.append(f"{self.call}: {note}")
            if "HandleByIndex" in self.call:
                fields["status"] = UNKNOWN
        del troubles[MOST_NOTES:]

    def _devices(self) -> list[Device]:
        devices = []
        for index in range(self.count or 0):
            fields = self.fields.get(index)
            troubles = self.troubles.get(index, [])
            if fields is None:
                fields, troubles = {"status": UNKNOWN}, [NOT_ASKED]
            fields.setdefault("driver", self.driver)
            devices.append(Device(index, note="; ".join(troubles) or None, **fields))
        return devices

    def answer(self, end: End, backend: str) -> Answer:
        """What all that comes to."""
        counted = self.count is not None and self.code is None
        if (counted or self.code is not None) and not self.done:
            self.notes.append(_ending(end, self.place))
        if self.code is not None:
            outcome = ERROR
            text = f"{self.library} gave error {named(self.code, self.errors)} at {self.call}."
        elif counted:
            outcome = ANSWERED
            text = f"{self.library} counts {report.count(self.count or 0, 'device')}."
        else:
            outcome = UNKNOWN
            text = (
                f"{self.library} was not asked: {self.unusable}." if self.unusable else _ending(end, self.place) + "."
            )
            if self.done and not self.unusable:
                text = f"{self.library} gave no number of devices that can be one."
        return Answer(
            outcome,
            self.backend or backend,
            count=self.count if counted else None,
            devices=self._devices() if counted else (),
            code=self.code,
            call=self.call,
            text=text,
            driver=self.driver,
            cuda=self.cuda,
            notes=self.notes,
            ms=end.seconds * 1000,
            cut_short=not self.done,
        )


def _ending(end: End, call: str) -> str:
    """How the child ended, in which call, and its last words."""
    said = end.detail.removesuffix(".")
    if call:
        said += f"; its last call was {call}"
    words = _last_line(end.stderr)
    return f"{said}; its last words were {words}" if words and end.how not in {"timeout", "flood"} else said


def _last_line(text: str) -> str:
    lines: Sequence[str] = text.split("\n")
    return next((ascii(line.strip()[-_LONGEST:]) for line in reversed(lines) if line.strip()), "")


def _text(event: Mapping[str, Any], name: str) -> str | None:
    value = event.get(name)
    return value[:_LONGEST] if isinstance(value, str) and value else None


def _number(event: Mapping[str, Any], name: str) -> int | None:
    value = event.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63 else None


def _code(errors: Mapping[int, str], name: str) -> int | None:
    return next((code for code, known in errors.items() if known == name), None)


def _address(text: str) -> str:
    """A PCI address as sysfs writes it: NVML's domain has eight digits."""
    domain, colon, rest = text.lower().partition(":")
    return (domain[4:] if len(domain) == 8 and domain.startswith("0000") else domain) + colon + rest  # noqa: PLR2004
