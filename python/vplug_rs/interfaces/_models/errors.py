"""What can be wrong with the registration of a model."""

from __future__ import annotations

from vplug_rs.errors import NotFoundError, VplugError


class ModelRegistryError(VplugError):
    """Base of these errors."""

    exit_status = 1


class ModelKindError(ModelRegistryError, TypeError):
    """An architecture or a reference that is no text; a TypeError, as in vLLM."""


class ModelReferenceError(ModelRegistryError, ValueError):
    """A reference that cannot work: its form, its module or its class; a ValueError, as in vLLM for its form."""


class ModelConflictError(ModelRegistryError, ValueError):
    """Two that register different classes for one architecture. `owners` are both, the one that was there first."""

    def __init__(self, message: str, owners: tuple[str, str], *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.owners = owners


class ModelNotFoundError(NotFoundError, KeyError):
    """Nobody has registered this architecture in this process."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show it quoted


class ModelLoadError(ModelRegistryError, ImportError):
    """The class of a registered model cannot be imported."""
