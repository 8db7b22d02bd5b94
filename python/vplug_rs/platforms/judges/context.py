"""What a judge knows besides its platform's own evidence, and the case that it makes of it."""

from __future__ import annotations

from vplug_rs.platforms import hints, masks, modules
from vplug_rs.platforms.model import ABSENT, INFO, MASKED, PRESENT, Evidence, Probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from vplug_rs.platforms.masks import Mask
    from vplug_rs.platforms.model import Device
    from vplug_rs.platforms.modules import Found, TorchBuild, VllmBuild

ORDER = ("tpu", "cuda", "rocm", "xpu", "cpu", "neuron", "hpu", "npu", "apple")
"""The platforms, in vLLM's order, then those that it does not bring along."""

NOTHING = "nothing of it was seen"
"""The reason of an absent platform that left no trace."""

NVML, OTHER_NVML, LIBCUDA, AMDSMI = "nvml", "other-nvml", "libcuda", "amdsmi"
"""Who was asked: NVML, NVML in the other way (to compare), libcuda as a second opinion, AMD's library."""


class Context:
    """What is known of the environment; look-ups on the path are made once, when they are asked for.

    Attributes:
        environment: The variables.
        facts: What the passive pass knows besides evidence, as `cuda.kernel`.
        answers: What drivers answered, by `NVML`, `OTHER_NVML`, `LIBCUDA`, `AMDSMI`.
        ends: How the processes that asked them ended (`isolated.EXITED`, ...), by the same names.
        seconds: What they were given.
        system: The platform as in `sys.platform`.
        machine: The processor's name.
    """

    def __init__(  # noqa: PLR0913  # keywords of a record
        self,
        environment: Mapping[str, str] | None = None,
        path: Iterable[Any] = (),
        *,
        meta_path: Iterable[Any] = (),
        facts: Mapping[str, str] | None = None,
        answers: Mapping[str, Any] | None = None,
        ends: Mapping[str, str] | None = None,
        seconds: float = 0.0,
        system: str = "linux",
        machine: str = "",
    ) -> None:
        self.environment = dict(environment or {})
        self.facts, self.answers, self.ends = dict(facts or {}), dict(answers or {}), dict(ends or {})
        self.seconds, self.system, self.machine = seconds, system, machine
        self._path, self._meta_path = list(path), list(meta_path)
        self._known: dict[str, Any] = {}

    @property
    def torch(self) -> TorchBuild | None:
        """What the torch on the path is built for."""
        found: TorchBuild | None = self._once("torch", lambda: modules.torch_build(self._path, self._meta_path))
        return found

    @property
    def vllm(self) -> VllmBuild | None:
        """The vLLM on the path."""
        found: VllmBuild | None = self._once("vllm", lambda: modules.vllm_build(self._path))
        return found

    @property
    def pynvml(self) -> tuple[str | None, str | None]:
        """`modules.find_pynvml` of the path."""
        found: tuple[str | None, str | None] = self._once("pynvml", lambda: modules.find_pynvml(self._path))
        return found

    def find(self, name: str) -> Found | None:
        """A module that an import would find; a leftover folder does not count."""
        found: Found | None = self._once("=" + name, lambda: modules.find(name, self._path, self._meta_path))
        return None if found is None or found.form == "namespace" else found

    def _once(self, key: str, look: Callable[[], Any]) -> Any:
        if key not in self._known:
            self._known[key] = look()
        return self._known[key]


class Case:
    """One platform's evidence while it is judged.

    Attributes:
        platform: Its name.
        evidence: What is known so far.
        devices: Those that were seen.
        context: What else is known.
        backend: Who answered last.
    """

    def __init__(
        self, platform: str, evidence: Iterable[Evidence], devices: Iterable[Device], context: Context
    ) -> None:
        self.platform, self.context = platform, context
        self.evidence, self.devices = list(evidence), list(devices)
        self.backend = "passive"
        self.isolated = False

    def add(self, what: str, kind: str, subject: str, result: str, weight: str, text: str) -> None:  # noqa: PLR0913, PLR0917
        """One more observation, with the id `platform.what`."""
        self.evidence.append(Evidence(f"{self.platform}.{what}", kind, subject, result, weight, text))

    def those(self, *whats: str) -> list[Evidence]:
        """The observations with one of these ids, given without the platform."""
        ids = {f"{self.platform}.{what}" for what in whats}
        return [one for one in self.evidence if one.id in ids]

    def weighs(self, weight: str) -> list[Evidence]:
        """The observations of one weight."""
        return [one for one in self.evidence if one.weight == weight]

    def has(self, weight: str) -> bool:
        """Whether there is an observation of that weight."""
        return bool(self.weighs(weight))

    def take_answer(self, who: str) -> None:
        """Note who answered, unless the process that was to ask never began."""
        if self.context.ends.get(who) not in hints.NEVER_STARTED:
            self.backend, self.isolated = self.context.answers[who].backend, True

    def add_torch(self) -> None:
        """The torch build, which breaks ties and explains much."""
        torch = self.context.torch
        if torch is not None:
            built = "nobody knows what: its version.py cannot be read" if torch.kind == "unknown" else torch.kind
            self.add("torch", "module", torch.file, torch.version or "", INFO, f"torch is built for {built}")

    def torch_hint(self) -> str | None:
        """The hint where torch is built for another platform, or None."""
        torch = self.context.torch
        if torch is None or torch.kind in {self.platform, "unknown"}:
            return None
        return hints.advise("torch-build", wanted=self.platform, version=torch.version or "torch", kind=torch.kind)

    def closed(self, *whats: str) -> tuple[str, str] | None:
        """What to add to the reason where nodes cannot be used, and the hint; None where all can.

        Args:
            *whats: The observations that say so, as for `those`.
        """
        nodes = self.those(*whats)
        if not nodes:
            return None
        told = f"; {seen(nodes)} cannot be used: {nodes[0].result}"
        return told, hints.advise("render-node", node=nodes[0].subject)

    def nothing(self) -> Probe:
        """The end of a case without evidence."""
        fault = self.context.facts.get("root")  # why there was nothing to look at
        return self.close(ABSENT, f"{NOTHING}: {sentence(fault)}" if fault else NOTHING)

    def close(
        self,
        status: str,
        reason: str,
        *,
        qualname: str | None = None,
        hint: str | None = None,
        hiding: Sequence[Mask] = (),
    ) -> Probe:
        """The judgement.

        Args:
            status: One of the model's words; present becomes masked where the masks hide all.
            reason: Why, in a sentence without its full stop.
            qualname: The class, kept only where the platform is present or masked.
            hint: The next step.
            hiding: The masks that count for this platform.
        """
        hidden = masks.apply(hiding, self.devices)
        if status == PRESENT and hidden:
            mask = next((one for one in hiding if one.hides_all), hiding[-1])
            status = MASKED
            reason = f"{reason}; {mask.variable} hides all of it"
            hint = hints.advise("masked", variable=mask.variable, text=mask.text)
        return Probe(
            self.platform,
            status,
            qualname=qualname if status in {PRESENT, MASKED} else None,
            reason=reason,
            devices=self.devices,
            evidence=self.evidence,
            backend=self.backend,
            isolated=self.isolated,
            hint=hint,
        )


def seen(evidence: Iterable[Evidence]) -> str:
    """The subjects of observations in a sentence: `/dev/kfd and PCI 0000:18:00.0`."""
    subjects = list(dict.fromkeys(("PCI " if one.kind == "pci" else "") + one.subject for one in evidence))
    return " and ".join([", ".join(subjects[:-1]), subjects[-1]] if len(subjects) > 1 else subjects)


def sentence(text: str) -> str:
    """A text that goes into a sentence: one line, without its full stop."""
    return " ".join(text.split()).rstrip(".")
