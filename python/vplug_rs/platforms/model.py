"""What is known of platforms, as data: evidence, devices, one probe for each platform, and the resolution.

The words of status, weight, kind and rule are strings, the same here, in JSON and in the core.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

PRESENT, ABSENT, MASKED, UNKNOWN, SKIPPED = "present", "absent", "masked", "unknown", "skipped"
"""A platform's status.

`present`: it can be used. `absent`: it cannot, and that is known. `masked`: it is there, and the environment hides
every device. `unknown`: the driver did not answer (time-out, crash, an error that says nothing); never taken for
absent, and never kept. `skipped`: nobody asked.
"""

STRONG, WEAK, AGAINST, INFO = "strong", "weak", "against", "info"
"""What a piece of evidence weighs.

`strong`: a device was seen. `weak`: something that often comes with one. `against`: something that speaks against
using it. `info`: neither.
"""

OVERRIDE, OOT, BUILTIN, TIE_BREAK, NONE = "override", "oot", "builtin", "tie-break", "none"
"""The rule that decided: named by the environment or the caller, an out-of-tree plugin, the one built-in platform that
is here, the torch build among several, or nothing."""

NOT_ASKED = "it was not asked"
"""The note of a device that was counted, and the driver hung or died before its turn."""


class _Record:
    """A record whose fields are its slots, in order."""

    __slots__: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Its fields, as plain data for JSON."""
        return {name: _plain(getattr(self, name)) for name in self.__slots__}

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.as_dict() == self.as_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        said = ", ".join(
            f"{name}={value!r}" for name in self.__slots__ if (value := getattr(self, name)) not in (None, [], "")
        )
        return f"{type(self).__name__}({said})"


def _plain(value: Any) -> Any:
    if isinstance(value, _Record):
        return value.as_dict()
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value


class Evidence(_Record):
    """One observation.

    Attributes:
        id: Its stable name, `platform.what`, as `cuda.pci`.
        kind: "file", "pci", "env", "module", "dist", "lib" or "call".
        subject: What was looked at: a path, an address, a variable, a module.
        result: What was found there.
        weight: `STRONG`, `WEAK`, `AGAINST` or `INFO`.
        text: What that means, in a short sentence for people.
    """

    __slots__ = ("id", "kind", "subject", "result", "weight", "text")  # noqa: RUF023  # the order of the table

    def __init__(self, id: str, kind: str, subject: str, result: str, weight: str, text: str) -> None:  # noqa: A002, PLR0913, PLR0917
        self.id, self.kind, self.subject, self.result, self.weight, self.text = id, kind, subject, result, weight, text


class Device(_Record):
    """One device; a field that could not be read is None.

    Attributes:
        index: Its number in the driver's own order, or its place in the list.
        name: As the driver or the PCI id says.
        uuid: The driver's identifier.
        pci: Its address, `0000:18:00.0`.
        memory_bytes: Its memory.
        memory_source: Where that number is from: "nvml", "sysfs", "meminfo".
        capability: The CUDA compute capability, `9.0`, or AMD's target, `gfx942`.
        driver: The driver's version or name.
        integrated: Whether it shares the host's memory.
        visible: Whether the environment's masks leave it visible; None where no mask is set.
        status: `PRESENT`, or `UNKNOWN` for one that the driver has lost, or of which nobody came to ask (`NOT_ASKED`).
        note: What is odd about it.
    """

    __slots__ = (  # noqa: RUF023
        "index", "name", "uuid", "pci", "memory_bytes", "memory_source", "capability", "driver", "integrated",
        "visible", "status", "note",
    )  # fmt: skip

    def __init__(self, index: int, **fields: Any) -> None:
        self.index: int = index
        self.name: str | None = fields.pop("name", None)
        self.uuid: str | None = fields.pop("uuid", None)
        self.pci: str | None = fields.pop("pci", None)
        self.memory_bytes: int | None = fields.pop("memory_bytes", None)
        self.memory_source: str | None = fields.pop("memory_source", None)
        self.capability: str | None = fields.pop("capability", None)
        self.driver: str | None = fields.pop("driver", None)
        self.integrated: bool | None = fields.pop("integrated", None)
        self.visible: bool | None = fields.pop("visible", None)
        self.status: str = fields.pop("status", PRESENT)
        self.note: str | None = fields.pop("note", None)
        if fields:
            raise TypeError(f"a device has no {', '.join(fields)}")


class Probe(_Record):
    """What is known of one platform.

    Attributes:
        platform: "cuda", "rocm", "xpu", "tpu", "cpu", "neuron", "hpu", "npu", "apple", or a plugin's entry point name.
        source: "builtin", or whose plugin it is: `name version`.
        status: `PRESENT`, `ABSENT`, `MASKED`, `UNKNOWN` or `SKIPPED`.
        qualname: The dotted name of vLLM's platform class, where the platform can be used.
        reason: Why the status is what it is, one sentence.
        devices: What was seen, in the driver's order.
        evidence: All observations, in the order in which they were made.
        backend: Who answered last: "passive", "pynvml", "native", "amdsmi", "plugin".
        isolated: Whether that was a process of its own.
        ms: What it took, in milliseconds.
        hint: The next step, or None.
    """

    __slots__ = (  # noqa: RUF023
        "platform", "source", "status", "qualname", "reason", "devices", "evidence", "backend", "isolated", "ms",
        "hint",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913  # keywords of a record
        self,
        platform: str,
        status: str,
        *,
        source: str = "builtin",
        qualname: str | None = None,
        reason: str = "",
        devices: Sequence[Device] = (),
        evidence: Sequence[Evidence] = (),
        backend: str = "passive",
        isolated: bool = False,
        ms: float = 0.0,
        hint: str | None = None,
    ) -> None:
        self.platform, self.source, self.status, self.qualname, self.reason = platform, source, status, qualname, reason
        self.devices, self.evidence = list(devices), list(evidence)
        self.backend, self.isolated, self.ms, self.hint = backend, isolated, ms, hint

    def weighs(self, weight: str) -> list[Evidence]:
        """The observations of one weight."""
        return [one for one in self.evidence if one.weight == weight]

    @property
    def strong(self) -> bool:
        """Whether a device was seen, and not only something that often comes with one."""
        return any(one.weight == STRONG for one in self.evidence)


class Resolution(_Record):
    """The platform that counts, why, and why not the others.

    Attributes:
        qualname: The dotted name of its class; None where nothing can be used or nothing is known.
        platform: Its name, or None.
        rule: `OVERRIDE`, `OOT`, `BUILTIN`, `TIE_BREAK` or `NONE`.
        probes: All that was asked, built-in ones first.
        rejected: Why not the others: [platform, reason].
        warnings: What somebody should look at.
    """

    __slots__ = ("qualname", "platform", "rule", "probes", "rejected", "warnings")  # noqa: RUF023

    def __init__(  # noqa: PLR0913  # keywords of a record
        self,
        rule: str,
        *,
        qualname: str | None = None,
        platform: str | None = None,
        probes: Sequence[Probe] = (),
        rejected: Sequence[tuple[str, str]] = (),
        warnings: Sequence[str] = (),
    ) -> None:
        self.rule, self.qualname, self.platform = rule, qualname, platform
        self.probes, self.rejected, self.warnings = list(probes), list(rejected), list(warnings)

    def probe(self, platform: str) -> Probe | None:
        """The probe of a platform, or None."""
        return next((one for one in self.probes if one.platform == platform), None)
