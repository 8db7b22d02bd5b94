"""What can go wrong with a head, each as a type of its own.  Standard library only."""

from __future__ import annotations


class LogitsError(Exception):
    """Base of all errors of this distribution."""


class ConfigError(LogitsError, ValueError):
    """A setting has a value that means nothing; the text names the setting, the value and what is possible."""


class UnsupportedHeadError(LogitsError):
    """A head that is left as it is: it has a bias or LoRA, is quantised, or is of an unknown class.

    Attributes:
        reason: One sentence without the name of the head.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class BadInputError(LogitsError, ValueError):
    """States or weights that no answer can be made from: a shape that does not fit, NaN or infinity."""


class BuildError(LogitsError):
    """A sketch could not be built; the text names the model, the cause and the next step."""


class BackendError(LogitsError):
    """A backend cannot serve a device.

    Attributes:
        name: Of the backend.
        reason: Why not, one sentence without the name.
    """

    def __init__(self, name: str, reason: str, *, next_step: str = "") -> None:
        super().__init__(f"backend {name}: {reason}" + (f" {next_step}" if next_step else ""))
        self.name, self.reason, self.next_step = name, reason, next_step


class ArtefactError(LogitsError):
    """An artefact cannot be used.

    Attributes:
        path: The file.
        reason: One sentence without the path.
    """

    def __init__(self, path: str, reason: str, *, next_step: str = "") -> None:
        super().__init__(f"{path}: {reason}" + (f" {next_step}" if next_step else ""))
        self.path, self.reason, self.next_step = path, reason, next_step


class ArtefactMissingError(ArtefactError):
    """There is no file of this name."""


class ArtefactDamagedError(ArtefactError):
    """The file is truncated, or is no artefact, or has tensors that contradict each other."""


class ArtefactForeignError(ArtefactError):
    """The file is sound, but was built of another head: other weights, another dtype or another shape."""
