"""Models by name, as `"module:Class"`: checked when they are registered, imported when they are used.

    from vplug_rs.interfaces.model_registry import register_model

    def register():  # a general plugin of vLLM's, which runs in each of its processes
        register_model("AcmeForCausalLM", "acme_models.causal:AcmeForCausalLM")

It works alone, and in front of vLLM's `ModelRegistry` where a process has imported vLLM: what is registered here is
registered there. Nothing of a model is imported for that, and no package above it.
"""

from __future__ import annotations

import importlib

from vplug_rs.interfaces._models import diagnosis, engine, reference
from vplug_rs.interfaces._models.diagnosis import Diagnosis
from vplug_rs.interfaces._models.errors import (
    ModelConflictError,
    ModelKindError,
    ModelLoadError,
    ModelNotFoundError,
    ModelReferenceError,
    ModelRegistryError,
)
from vplug_rs.interfaces._models.model import Model
from vplug_rs.interfaces._models.origin import Origin
from vplug_rs.notices import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "MODELS",
    "Diagnosis",
    "Model",
    "ModelConflictError",
    "ModelKindError",
    "ModelLoadError",
    "ModelNotFoundError",
    "ModelReferenceError",
    "ModelRegistry",
    "ModelRegistryError",
    "diagnose",
    "forward",
    "register_model",
]


class ModelRegistry:
    """Registered models, by architecture. `MODELS` is the one of this process."""

    def __init__(self) -> None:
        # no lock: each step on it is one of the dict's own, and a forked child could inherit one that is held
        self._models: dict[str, Model] = {}

    def register_model(self, arch: str, target: str, *, owner: str | None = None, replace: bool = False) -> Model:
        """Registers a class for an architecture; the same again changes nothing.

        In a process that has imported vLLM, vLLM's registry gets it at once; in another `forward` hands it over, or the
        next registration.

        Args:
            arch: The architecture, as `architectures` in a model's config.json has it.
            target: `"package.module:Class"`.
            owner: The distribution on whose behalf this is, if it is not that of the calling module.
            replace: It takes the place of what vLLM has, or of a registration that does not say so, whichever of both
                comes first.

        Raises:
            ModelKindError: one of both is no text.
            ModelReferenceError: the form is wrong, there is no such module, or no such class in it.
            ModelConflictError: another class is registered for it. The first one stays.
            ModelRegistryError: vLLM's registry cannot be imported.

        Warns:
            PluginWarning: whether the class exists could not be checked.
        """
        origin = Origin.of_caller(owner)
        known = self._known(arch)
        again = None if known is None else _same(known, target)
        if known is None or again is None:
            new = Model(arch, reference.check(arch, target), origin, replace=replace)
            if new.doubt:
                warn(f"model `{arch}`, registered by {origin}: {new.doubt}")
            known = self._models.setdefault(arch, new)
            if known is not new and known.target != target:
                known = self._settled(known, new)
        elif again is known:
            known.replace = known.replace or replace
            if origin.is_everywhere and not known.origin.is_everywhere:
                known.origin = origin  # a script came first
        elif replace:
            raise _conflict(known, again)
        self._hand_over(known, wanted=engine.is_here())
        for conflict in self._forward():  # those of others
            warn(f"{conflict} ({conflict.hint})")
        return known

    def forward(self) -> None:
        """Hands over to vLLM's registry what it has not got yet; vLLM is imported for it.

        Raises:
            ModelConflictError: vLLM has another class for one of them; all others were handed over.
            ModelRegistryError: vLLM's registry cannot be imported.
        """
        engine.registry(wanted=True)
        for conflict in self._forward():
            raise conflict

    def get_supported_archs(self) -> frozenset[str]:
        """The architectures that are known: ours, and those of vLLM's registry if that is imported."""
        return frozenset(self._models) | engine.architectures()

    def models(self) -> list[Model]:
        """What is registered here, in the order of the architectures' names."""
        return [self._models[arch] for arch in sorted(self._models)]

    def load(self, arch: str) -> Any:
        """Imports the class of a model.

        Raises:
            ModelNotFoundError: nobody has registered it here.
            ModelLoadError: it cannot be imported, or the module has no such class after all.
        """
        model = self._models.get(arch)
        if model is None:
            found = self.diagnose(arch)
            raise ModelNotFoundError(found.message, hint=found.hint)
        try:
            return getattr(importlib.import_module(model.module), model.name)
        except (Exception, SystemExit) as error:
            raise ModelLoadError(
                f"model {model}, cannot be loaded: {type(error).__name__}: {error}",
                hint=f"See what `python -c 'import {model.module}'` says.",
            ) from error

    def diagnose(self, arch: str) -> Diagnosis:
        """Why an architecture is not known to vLLM, or will not be in its other processes. Nothing is imported."""
        return diagnosis.diagnose(arch, self._models)

    def _known(self, arch: Any) -> Model | None:
        return self._models.get(arch) if isinstance(arch, str) else None

    def _settled(self, known: Model, new: Model) -> Model:
        """Which of two different ones counts: the one that says `replace`, whichever came first."""
        if known.replace == new.replace:
            raise _conflict(known, new)
        winner, other = (new, known) if new.replace else (known, new)
        winner.aside = [*other.aside, *winner.aside, other]
        self._models[new.arch] = winner
        return winner

    def _forward(self) -> list[ModelConflictError]:
        """Hands over what vLLM's registry has not got yet, if it is there; what it does not take."""
        conflicts = []
        for model in list(self._models.values()):
            try:
                self._hand_over(model, wanted=False)
            except ModelConflictError as conflict:
                conflicts.append(conflict)
        return conflicts

    def _hand_over(self, model: Model, *, wanted: bool) -> None:
        if model.handed_over:
            return
        registry = engine.registry(wanted=wanted)
        if registry is None:
            return
        theirs = engine.target(registry, model.arch)
        if theirs is not None and theirs != model.target and not model.replace:
            # what vLLM has stays, and so nothing else may count here
            self._models.pop(model.arch, None)
            owners = (f"vLLM's registry (`{theirs}`)", str(model.origin))
            raise ModelConflictError(
                f"model `{model.arch}` is known to vLLM as `{theirs}`, of its own or from somebody who registered it "
                f"there directly, and is registered as `{model.target}` by {owners[1]}",
                owners,
                hint="Say `replace=True` if it is meant to take that place.",
            )
        if theirs != model.target:
            registry.register_model(model.arch, model.target)
        model.handed_over = True


def _conflict(known: Model, new: Model) -> ModelConflictError:
    owners = (str(known.origin), str(new.origin))
    both = f"as `{known.target}` by {owners[0]}, and as `{new.target}` by {owners[1]}"
    hint = "Uninstall one of both, or let the one that is meant say `replace=True`."
    if known.replace:
        both, hint = f"{both}; both say `replace=True`", "Uninstall one of both."
    return ModelConflictError(f"model `{new.arch}` is registered twice: {both}", owners, hint=hint)


def _same(known: Model, target: object) -> Model | None:
    """The registration of this very class, be it set aside."""
    return next((one for one in (known, *known.aside) if one.target == target), None)


MODELS = ModelRegistry()


def register_model(arch: str, target: str, *, owner: str | None = None, replace: bool = False) -> Model:
    """Registers a class for an architecture in this process: `ModelRegistry.register_model` of `MODELS`."""
    return MODELS.register_model(arch, target, owner=owner, replace=replace)


def forward() -> None:
    """Hands over to vLLM's registry what it has not got yet: `ModelRegistry.forward` of `MODELS`."""
    MODELS.forward()


def diagnose(arch: str) -> Diagnosis:
    """Why an architecture is not known to vLLM, or will not be in its other processes."""
    return MODELS.diagnose(arch)
