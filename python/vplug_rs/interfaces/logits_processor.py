"""vLLM's logits processors, which come in two interfaces: that of the V1 model runner, and that of V2, its default.

The wrong one is told before start, with its distribution: vLLM's V2 runner refuses a class that is not of its own
interface by the entry point's name alone, and V1 fails where it makes or calls it.
"""

from __future__ import annotations

from typing import Any, Protocol

from vplug_rs import groups, notices
from vplug_rs.errors import PluginLoadError
from vplug_rs.interfaces._check import ERROR, MISSING, Check
from vplug_rs.loader import PluginLoader
from vplug_rs.loading import wanted
from vplug_rs.loading.plugin import FAILED, FILTERED, Failure
from vplug_rs.policy import Policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vplug_rs.interfaces._check import Finding
    from vplug_rs.loading.plugin import Plugin

V1, V2 = "v1", "v2"
_BASE = "LogitsProcessor"
_PACKAGES = {V1: "vllm.v1.sample.logits_processor", V2: "vllm.v1.worker.gpu.sample.logits_processor"}
_SWITCH = {V1: "VLLM_USE_V2_MODEL_RUNNER=0", V2: "VLLM_USE_V2_MODEL_RUNNER=1"}


class LogitsProcessorV1(Protocol):
    """A logits processor of the V1 model runner: a batch whose rows move, and updates that say how."""

    def __init__(self, vllm_config: Any, device: Any, is_pin_memory: bool) -> None: ...  # noqa: FBT001  # as vLLM's

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Raises ValueError for parameters that it cannot use; in the front end."""

    def apply(self, logits: Any) -> Any:
        """The logits, changed in place or new."""

    def is_argmax_invariant(self) -> bool:
        """Whether greedy sampling may skip it."""

    def update_state(self, batch_update: Any) -> None:
        """Before each step; None where the batch is the same."""


class LogitsProcessorV2(Protocol):
    """A logits processor of the V2 model runner: a slot for each request, and rows that map to them."""

    def __init__(self, vllm_config: Any, req_states: Any) -> None: ...

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Raises ValueError for parameters that it cannot use; in the front end."""

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        """A request takes a slot; whether its logits are to be changed."""

    def apply_staged_writes(self) -> None:
        """Once before each step: to the device with what `add_request` has prepared."""

    def apply(self, logits: Any, ctx: Any) -> Any:
        """The logits, `[rows, vocabulary]` in float32, changed in place or new."""


def interfaces_of(found: Any) -> tuple[str, ...]:
    """Which interface a class has, by its base class, else by its methods: `("v1",)`, `("v2",)`, both or none."""
    return _interfaces(Check(found))


def _interfaces(it: Check) -> tuple[str, ...]:
    by_base = tuple(runner for runner, package in _PACKAGES.items() if it.descends(_BASE, package))
    if by_base:
        return by_base
    methods = {V1: ("update_state", "is_argmax_invariant"), V2: ("add_request", "apply_staged_writes")}
    return tuple(
        runner for runner, names in methods.items() if any(it.attribute(name) is not MISSING for name in names)
    )


def check(found: Any, plugin: Plugin | None = None, *, runner: str | None = None) -> list[Finding]:
    """What is wrong with a logits processor class for a model runner.

    Args:
        found: The class.
        plugin: Whose it is.
        runner: "v1" or "v2"; by default each whose interface the class has.

    Raises:
        ValueError: `runner` is none of these.
    """
    if runner not in {None, V1, V2}:
        raise ValueError(f'runner={runner!r}: known are "v1" and "v2"')
    it = Check(found, plugin)
    if not it.wants_class("Name the class itself in the entry point: `module:Class`."):
        return it.findings
    has = _interfaces(it)
    if not has:
        it.error(
            "it has neither of vLLM's two interfaces for logits processors",
            f"Derive from `{_PACKAGES[V2]}.{_BASE}`, or `{_PACKAGES[V1]}.{_BASE}` for the V1 model runner.",
        )
        return it.findings
    if runner is not None and runner not in has:
        _refuse(it, runner, has[0])
        return it.findings
    for each in has if runner is None else (runner,):
        (_check_v1 if each == V1 else _check_v2)(it)
    return it.findings


def _refuse(it: Check, runner: str, has: str) -> None:
    end = "refuses to start with it" if runner == V2 else "cannot make or call it"
    it.error(
        f"it has the interface of the {has.upper()} model runner, and the {runner.upper()} model runner {end}",
        f"Derive from `{_PACKAGES[runner]}.{_BASE}`, or run vLLM with {_SWITCH[has]}.",
    )


def _check_v1(it: Check) -> None:
    it.method(LogitsProcessorV1, "apply", "logits")
    it.method(LogitsProcessorV1, "is_argmax_invariant", "")
    it.method(LogitsProcessorV1, "update_state", "batch_update")
    _check_validation(it, LogitsProcessorV1)
    it.constructor(LogitsProcessorV1, "vllm_config, device, is_pin_memory")


def _check_v2(it: Check) -> None:
    if not it.descends(_BASE, _PACKAGES[V2]):
        it.error(
            f"it is no subclass of `{_PACKAGES[V2]}.{_BASE}`, so the V2 model runner refuses to start with it",
            "Derive from that class.",
        )
    it.method(LogitsProcessorV2, "apply", "logits, ctx")
    it.method(LogitsProcessorV2, "add_request", "req_idx, sampling_params")
    it.method(LogitsProcessorV2, "apply_staged_writes", "")
    _check_validation(it, LogitsProcessorV2)
    it.constructor(LogitsProcessorV2, "vllm_config, req_states")


def _check_validation(it: Check, protocol: type) -> None:
    it.method(protocol, "validate_params", "sampling_params")
    raw = it.attribute("validate_params")
    if type(raw) is type(check):
        it.error("`validate_params` is no class method, and vLLM calls it on the class", "Put `@classmethod` above it.")


def load(runner: str, *, policy: Policy | None = None) -> list[Plugin]:
    """Loads the group for a model runner, in order, all of it checked before the host makes anything.

    vLLM has no allowlist for this group. Without a policy all plugins load, as there; with one, what it keeps out is
    told in a warning, since vLLM itself would load it.

    Raises:
        PluginLoadError: one could not be loaded, is no class, or is not for this runner; all such are in `failures`.
        PolicyError: as for `PluginLoader`.
        ValueError: `runner` is neither "v1" nor "v2".
    """
    # as there: of several with one name all load
    policy = Policy(collision="all", origin="the default policy") if policy is None else policy
    loader = PluginLoader(groups.LOGITS_PROCESSOR, policy=policy, kind="any")
    loaded = loader.load()
    rows = loader.report().plugins
    failures = [row.failure for row in rows if row.state == FAILED and row.failure is not None]
    for plugin in loaded:
        refused = wanted.check(plugin)
        faults = (
            [] if refused else [one for one in check(plugin.object, plugin, runner=runner) if one.severity == ERROR]
        )
        if faults:
            refused = Failure(plugin, "resolve", TypeError("; ".join(one.text for one in faults)), hint=faults[0].hint)
        if refused is not None:
            failures.append(refused)
    if failures:
        text = f"{len(failures)} of {len(rows)} plugins in {loader.group} cannot be used:\n"
        raise PluginLoadError(text + "\n".join(map(str, failures)), failures, hint=failures[0].hint)
    for row in rows:
        if row.state == FILTERED:
            notices.warn(f"{groups.whose(row)} is kept out ({row.rule}); vLLM has no allowlist here and would load it")
    return loaded
