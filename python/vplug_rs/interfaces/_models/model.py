"""One registered model."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vplug_rs.interfaces._models.origin import Origin
    from vplug_rs.interfaces._models.reference import Checked


class Model:
    """One architecture, and the class that it stands for.

    Attributes:
        arch: The architecture.
        module, name: Where its class is.
        path: The module's file, or None where it has none.
        doubt: What of the reference could not be checked, in one sentence, or an empty text.
        origin: Who registered it.
        replace: Whether it is meant to take the place of another.
        handed_over: Whether vLLM's own registry has got it.
        aside: Those whose place it has.
    """

    __slots__ = ("arch", "aside", "doubt", "handed_over", "module", "name", "origin", "path", "replace")

    def __init__(self, arch: str, checked: Checked, origin: Origin, *, replace: bool) -> None:
        self.arch, self.origin, self.replace = arch, origin, replace
        self.module, self.name, self.path, self.doubt = checked.module, checked.name, checked.path, checked.doubt
        self.handed_over = False
        self.aside: list[Model] = []

    @property
    def target(self) -> str:
        """`module:Class`."""
        return f"{self.module}:{self.name}"

    def __str__(self) -> str:
        return f"{self.arch} = {self.target}, registered by {self.origin}"

    def __repr__(self) -> str:
        return f"<Model {self}>"
