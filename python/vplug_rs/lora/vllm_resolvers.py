"""Our resolvers inside an unmodified vLLM: the entry point `vplug_lora` of `vllm.general_plugins`.

Nothing is imported and nothing happens unless `VPLUG_LORA_DIR` is set, and nothing is ever raised into vLLM, whose
process an error of a general plugin, or of a resolver, would end or fail.
"""

from __future__ import annotations

from vplug_rs import env

TYPE_CHECKING = False  # every process of a vLLM comes here, and most have nothing to do
if TYPE_CHECKING:
    from collections import OrderedDict
    from logging import Logger
    from typing import Any

    from vplug_rs.lora.resolver import Registry, Resolution

NAME = "vplug_lora"
_MOST_TOLD = 1024
_ABSENT = frozenset({"not-found"})  # and every code of a name: a client's affair, not the operator's


def register() -> None:
    """Puts the resolvers that the environment asks for into vLLM's registry, once in a process."""
    if env.path(env.LORA_DIR) is None:
        return
    log = _log()
    try:
        _register(log)
    except Exception:
        log.exception("vplug_rs could not register its LoRA resolvers: adapters in `%s` are not served", env.LORA_DIR)


def configured() -> Registry:
    """The resolvers that the environment asks for.

    Raises:
        UsageError: a variable cannot be understood.
    """
    from vplug_rs.errors import UsageError
    from vplug_rs.lora.filesystem import FilesystemResolver
    from vplug_rs.lora.resolver import Registry

    wrong = env.unknown_word(env.LORA_ALLOW_PICKLE)
    if wrong is not None:
        raise UsageError(f"`{env.LORA_ALLOW_PICKLE}` is `{wrong}`", hint="Set it to on or off.")
    folder = env.path(env.LORA_DIR)
    if folder is None:
        return Registry()
    allow = env.switch(env.LORA_ALLOW_PICKLE) is True
    return Registry([FilesystemResolver(folder, aliases=env.names(env.LORA_BASE_ALIASES), allow_pickle=allow)])


def _register(log: Logger) -> None:
    from importlib import import_module

    theirs = import_module("vllm.lora.resolver")
    if NAME in theirs.LoRAResolverRegistry.get_supported_resolvers():
        return
    registry = configured()
    # derived from vLLM's own base, for those who ask; ours comes first
    kind = type("VplugLoRAResolver", (_Front, theirs.LoRAResolver), {"__module__": __name__})
    theirs.LoRAResolverRegistry.register_resolver(NAME, kind(registry, log))
    if not import_module("vllm.envs").VLLM_ALLOW_RUNTIME_LORA_UPDATING:
        log.warning(
            "`%s` is set, but vLLM asks no resolver unless VLLM_ALLOW_RUNTIME_LORA_UPDATING is on too", env.LORA_DIR
        )


class _Front:
    """What vLLM calls. A reason is logged once for each adapter, not once for each request."""

    def __init__(self, registry: Registry, log: Logger) -> None:
        from collections import OrderedDict

        self.registry, self._log = registry, log
        self._told: OrderedDict[tuple[str, ...], None] = OrderedDict()

    async def resolve_lora(self, base_model_name: str, lora_name: str) -> Any:
        """A `LoRARequest`, or None with the reason in the log."""
        from vplug_rs.lora.resolver import Request

        try:
            resolution = await self.registry.resolve(Request(lora_name, base_model_name))
            self._tell(resolution)
            return None if resolution.adapter is None else _request(lora_name, resolution.adapter.path)
        except Exception:  # noqa: BLE001  # vLLM does not contain what a resolver raises
            self._log.exception("vplug_rs failed to resolve a LoRA adapter")
            return None

    def _tell(self, resolution: Resolution) -> None:
        codes = [refusal.code for _, refusal in resolution.refusals]
        matched = resolution.adapter.matched if resolution.adapter else ""
        key = (str(resolution.request.name), matched, *codes)
        if key in self._told:
            return
        self._told[key] = None
        if len(self._told) > _MOST_TOLD:  # names come from clients
            self._told.popitem(last=False)
        failed = next((refusal for _, refusal in resolution.refusals if refusal.code == "resolver-failed"), None)
        is_ours = any(code not in _ABSENT and not code.startswith("name-") for code in codes)
        level = 30 if is_ours else 20  # warning, info
        self._log.log(level, "%s", resolution, exc_info=None if failed is None else failed.__cause__)
        if resolution.adapter is not None and matched == "alias":
            self._log.info(
                "it was made for `%s`, which `%s` lists", resolution.adapter.config.base, env.LORA_BASE_ALIASES
            )


def _request(name: str, path: str) -> Any:
    from hashlib import sha256
    from importlib import import_module

    # vLLM gives it a number of its own; until then the same one for the same name, in every process
    number = int.from_bytes(sha256(name.encode()).digest()[:4], "big") % 0x7FFFFFFF + 1
    return import_module("vllm.lora.request").LoRARequest(lora_name=name, lora_int_id=number, lora_path=path)


def _log() -> Logger:
    import logging

    return logging.getLogger("vllm.vplug_rs")
