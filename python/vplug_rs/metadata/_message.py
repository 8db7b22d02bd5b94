"""Header fields with the interface of `importlib.metadata`'s message, the email parser left asleep."""

import sys

from vplug_rs import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from vplug_rs.metadata._distribution import PathDistribution


def from_text(text: "str | None") -> "Any":
    """The standard's own message of a text."""
    import email

    from vplug_rs.metadata._genuine import part

    return part("_adapters").Message(email.message_from_string(text or ""))


def from_folder(distribution: "PathDistribution") -> "Any":
    """The fields of a metadata folder."""
    return Message(distribution, _core.read_headers(distribution._info or "", strict=False))


class Message:
    """Fields of METADATA: item access by name in any case, `get`, `get_all`, `in`; the rest of the email interface.

    Whatever needs the body or the order of all fields is answered by the standard's message, made when it is needed.
    """

    def __init__(self, distribution: "PathDistribution", fields: "list[tuple[str, str]]") -> None:
        self._distribution = distribution
        self._fields = fields
        self._made: Any = None

    @property
    def _whole(self) -> "Any":
        if self._made is None:
            from vplug_rs.metadata._distribution import Distribution

            self._made = Distribution.metadata.fget(self._distribution)  # type: ignore[attr-defined]
            if self._fields and not len(self._made):
                # the file is too large to be read whole: what its head says still counts
                lines = (f"{field}: {value.replace(chr(10), chr(10) + ' ' * 8)}" for field, value in self._fields)
                self._made = from_text("\n".join(lines) + "\n")
        return self._made

    def _values(self, name: str) -> "list[str]":
        wanted = name.lower()
        if wanted == "description":  # may be the body
            return self._whole.get_all(name) or []
        return [value for field, value in self._fields if field.lower() == wanted]

    def __getitem__(self, name: str) -> "Any":
        found = self._values(name)
        if found:
            return found[0]
        if sys.version_info >= (3, 15):
            raise KeyError(name)
        if sys.version_info >= (3, 12):
            import warnings

            warnings.warn(
                "Implicit None on return values is deprecated and will raise KeyErrors.",
                DeprecationWarning,
                stacklevel=2,
            )
        return None

    def get(self, name: str, failobj: "Any" = None) -> "Any":
        """The first value of a field."""
        found = self._values(name)
        return found[0] if found else failobj

    def get_all(self, name: str, failobj: "Any" = None) -> "Any":
        """All values of a field, in order."""
        return self._values(name) or failobj

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(self._values(name))

    def __iter__(self) -> "Iterator[str]":
        return iter(self._whole)

    def __len__(self) -> int:
        return len(self._whole)

    def __str__(self) -> str:
        return str(self._whole)

    def __bytes__(self) -> bytes:
        return bytes(self._whole)

    def __setitem__(self, name: str, value: "Any") -> None:
        self._whole[name] = value
        self._fields = [*self._fields, (name, value)]

    def __delitem__(self, name: str) -> None:
        del self._whole[name]
        self._fields = [(field, value) for field, value in self._fields if field.lower() != name.lower()]

    def __getattr__(self, name: str) -> "Any":
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._whole, name)
