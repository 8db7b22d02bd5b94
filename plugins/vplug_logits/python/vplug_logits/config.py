"""What a head is asked to do, and the environment variables that say it.  Standard library only."""

from __future__ import annotations

import difflib
import math
import os
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, cast, get_args

from vplug_logits.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Outside = Literal["estimates", "-inf"]
Build = Literal["auto", "wait", "never"]
BackendName = Literal["auto", "cpu", "triton", "torch"]

AUTO: BackendName = "auto"

ON, OFF = ("1", "on", "true", "yes"), ("0", "off", "false", "no")
BITS = (1, 2, 4, 8)
SEED = 0  # of the rotation, the clusters and the calibration, where nobody names another

CLUSTER_SIZE = 16
CLUSTER_PROBE = 3 / 32
"""Share of the clusters that are scored: int8 centroids of K = V/16 rows cost 1/32 of a bfloat16 head, the rows of
3/32 of the clusters cost 3/32 of it, and both together the 12.5 % that a 2-bit sketch costs."""


class Mode(StrEnum):
    """What is promised about the logits (the README has the figures)."""

    EXACT = "exact"
    SAFE = "safe"
    FAST = "fast"
    CLUSTERS = "clusters"
    DENSE = "dense"


@dataclass(frozen=True, slots=True)
class _Defaults:
    bits: int
    rows: int
    z: float


DEFAULTS = {
    Mode.EXACT: _Defaults(bits=8, rows=64, z=0.0),
    Mode.SAFE: _Defaults(bits=2, rows=512, z=5.0),
    Mode.FAST: _Defaults(bits=1, rows=512, z=0.0),
    Mode.CLUSTERS: _Defaults(bits=2, rows=0, z=0.0),
    Mode.DENSE: _Defaults(bits=2, rows=0, z=0.0),
}


@dataclass(frozen=True, slots=True)
class Config:
    """How one head works.  `Config.of` fills in what its mode wants.

    Attributes:
        mode: See `Mode`.
        bits: Bits of a code of the sketch, one of 1, 2, 4, 8; in mode `exact` always 8. Mode `clusters` scans no
            sketch, its artefact has one of these bits; mode `dense` has no artefact.
        rows: In mode `fast` the rows that are rescored; in `exact` and `safe` those that are rescored first, whose
            best exact logit places the window; in `clusters` the rows that are scored, 0: of 3/32 of the clusters.
        z: Width of the window of mode `safe`, in standard deviations of an estimate; no other mode reads it.
        outside: What stands for the logits of rows that were not rescored.
        build: Where there is no artefact; `auto`: a child process builds while dense answers, `wait`: the start waits
            for it, `never`: dense stays.
        cache: The folder of artefacts, or None: beside the model, else the user's cache.
        artefact: The one file to use, or None: looked for.
        backend: What computes; `auto`: the best one that serves the device of the weight.

    Raises:
        ConfigError: A value that means nothing.
    """

    mode: Mode
    bits: int
    rows: int
    z: float
    outside: Outside = "estimates"
    build: Build = "auto"
    cache: str | None = None
    artefact: str | None = None
    backend: BackendName = AUTO

    def __post_init__(self) -> None:
        _one_of("mode", self.mode, tuple(Mode))
        _one_of("outside", self.outside, get_args(Outside))
        _one_of("build", self.build, get_args(Build))
        _one_of("backend", self.backend, get_args(BackendName))
        if type(self.bits) is not int or self.bits not in BITS:
            raise ConfigError(f"bits: {self.bits!r} is no width of a code; possible: {_listed(map(str, BITS))}.")
        if self.mode is Mode.EXACT and self.bits != DEFAULTS[Mode.EXACT].bits:
            raise ConfigError(f"bits: mode exact needs 8 (its bound says nothing at {self.bits}); leave them out.")
        if type(self.rows) is not int or self.rows < self._fewest_rows():
            raise ConfigError(f"rows: {self.rows!r} is no number of rows; possible: {self._fewest_rows()} and more.")
        if not math.isfinite(self.z) or self.z < 0 or (self.mode is Mode.SAFE and self.z == 0):
            raise ConfigError(f"z: {self.z!r} is no width of a window; possible: finite numbers above 0, such as 5.")

    @classmethod
    def of(  # noqa: PLR0913  # keywords, one for each field
        cls,
        mode: Mode | str = Mode.SAFE,
        *,
        bits: int | None = None,
        rows: int | None = None,
        z: float | None = None,
        outside: Outside = "estimates",
        build: Build = "auto",
        cache: str | None = None,
        artefact: str | None = None,
        backend: BackendName = AUTO,
    ) -> Config:
        """A configuration with the defaults of its mode where nothing is said.

        Args:
            mode: A `Mode` or its word, in any case.
            bits: None: the mode's; the attributes say what each is.
            rows: None: the mode's.
            z: None: the mode's.
            outside: As the attribute.
            build: As the attribute.
            cache: As the attribute.
            artefact: As the attribute.
            backend: As the attribute.

        Raises:
            ConfigError: A value that means nothing.
        """
        chosen = Mode(_word("mode", str(mode), tuple(Mode)))
        default = DEFAULTS[chosen]
        return cls(
            mode=chosen,
            bits=default.bits if bits is None else bits,
            rows=default.rows if rows is None else rows,
            z=default.z if z is None else z,
            outside=outside,
            build=build,
            cache=cache,
            artefact=artefact,
            backend=backend,
        )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Config | None:
        """What the `VPLUG_LOGITS*` variables say, or None where they switch the head off (`why_off` says how).

        Args:
            environment: Where they stand, if not in this process's environment.

        Raises:
            ConfigError: A word or number that means nothing; names the variable, what it has and what is possible.
        """
        found = os.environ if environment is None else environment
        if why_off(found) is not None:
            return None
        text = _text(found, LOGITS).lower()
        words = (*tuple(Mode), *ON, *OFF)
        mode = Mode.SAFE if not text or text in ON else Mode(_word(LOGITS, text, words))
        outside: Outside = "-inf" if _choice(found, OUTSIDE, get_args(Outside)) == "-inf" else "estimates"
        build = _choice(found, BUILD, get_args(Build))
        try:
            return cls.of(
                mode,
                bits=_whole(found, CODE_BITS),
                rows=_whole(found, ROWS),
                z=_number(found, Z),
                outside=outside,
                build="wait" if build == "wait" else "never" if build == "never" else "auto",
                cache=_path(found, CACHE),
                artefact=_path(found, ARTEFACT),
                backend=cast("BackendName", _choice(found, BACKEND, get_args(BackendName))),
            )
        except ConfigError as error:
            field, _, rest = str(error).partition(":")
            if field in _VARIABLE_OF:
                raise ConfigError(f"{_VARIABLE_OF[field]}:{rest}") from None
            raise

    @property
    def needs_clusters(self) -> bool:
        """Whether an artefact for this configuration must hold clusters."""
        return self.mode is Mode.CLUSTERS

    def probes(self, clusters: int) -> int:
        """How many of `clusters` clusters are scored in mode `clusters`: at least one."""
        wanted = -(-self.rows // CLUSTER_SIZE) if self.rows else math.ceil(clusters * CLUSTER_PROBE)
        return max(1, min(clusters, wanted))

    def _fewest_rows(self) -> int:
        return 0 if self.mode in {Mode.CLUSTERS, Mode.DENSE} else 1


LOGITS, BUILD, CODE_BITS, ROWS = "VPLUG_LOGITS", "VPLUG_LOGITS_BUILD", "VPLUG_LOGITS_BITS", "VPLUG_LOGITS_ROWS"
Z, OUTSIDE, CACHE, ARTEFACT = "VPLUG_LOGITS_Z", "VPLUG_LOGITS_OUTSIDE", "VPLUG_LOGITS_CACHE", "VPLUG_LOGITS_ARTEFACT"
BACKEND = "VPLUG_LOGITS_BACKEND"

_VARIABLE_OF = {"bits": CODE_BITS, "rows": ROWS, "z": Z}


@dataclass(frozen=True, slots=True)
class Variable:
    """One environment variable, for the documentation.

    Attributes:
        name: Its name.
        values: What may stand there.
        unset: What it means that nothing does.
        meaning: What it is for.
    """

    name: str
    values: str
    unset: str
    meaning: str


VARIABLES = (
    Variable(
        LOGITS,
        "`exact`, `safe`, `fast`, `clusters`, `dense`; `1`, `on`, `true`, `yes`; `0`, `off`, `false`, `no`",
        "`safe`",
        "the mode; on means `safe`, off leaves the host untouched",
    ),
    Variable(
        BUILD,
        "`auto`, `wait`, `never`",
        "`auto`",
        "without an artefact: build in a child process while dense answers, let the start wait for it, or stay dense",
    ),
    Variable(CODE_BITS, "`1`, `2`, `4`, `8`", "the mode's: 8, 2, 1", "bits of a code of the sketch"),
    Variable(ROWS, "a whole number", "the mode's: 64, 512, 512", "rows that are rescored (first)"),
    Variable(Z, "a number above 0", "`5`", "width of the window of `safe`, in standard deviations"),
    Variable(OUTSIDE, "`estimates`, `-inf`", "`estimates`", "what stands for logits that were not rescored"),
    Variable(CACHE, "a folder", "beside the model, else the user's cache", "where artefacts are kept"),
    Variable(ARTEFACT, "a file", "looked for", "the artefact to use; nothing is built"),
    Variable(
        BACKEND,
        "`auto`, `cpu`, `triton`, `torch`",
        "`auto`",
        "what computes: the best one that serves the device, or the one that is named",
    ),
)


def backend_named(text: str) -> BackendName:
    """The backend that a word names, whatever its case.

    Args:
        text: The word; `auto` is one.

    Raises:
        ConfigError: No backend is called so.
    """
    return cast("BackendName", _word("backend", text, get_args(BackendName)))


def why_off(environment: Mapping[str, str] | None = None) -> str | None:
    """The setting that switches the head off, such as `VPLUG_LOGITS=0`, or None where none does.

    Args:
        environment: Where it stands, if not in this process's environment.
    """
    text = _text(os.environ if environment is None else environment, LOGITS)
    return f"{LOGITS}={text}" if text.lower() in OFF else None


def _text(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name, "").strip()


def _path(environment: Mapping[str, str], name: str) -> str | None:
    text = environment.get(name, "")
    return os.path.expanduser(text) if text.strip() else None


def _choice(environment: Mapping[str, str], name: str, words: tuple[str, ...]) -> str:
    text = _text(environment, name)
    return _word(name, text, words) if text else words[0]


def _whole(environment: Mapping[str, str], name: str) -> int | None:
    text = _text(environment, name)
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > len(str(2**63)):
        raise ConfigError(f"{name}: {text!r} is no whole number; possible: digits alone, such as 64.")
    return int(text)


def _number(environment: Mapping[str, str], name: str) -> float | None:
    text = _text(environment, name)
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{name}: {text!r} is no number; possible: a number above 0, such as 5.") from None


def _word(name: str, text: str, words: tuple[str, ...]) -> str:
    """The one of `words` that `text` is, whatever its case and the blanks around it."""
    word = text.strip().lower()
    if word in words:
        return word
    near = difflib.get_close_matches(word, words, n=1)
    meant = f" Is {near[0]!r} meant?" if near else ""
    raise ConfigError(f"{name}: {text!r} is no word that is known; possible: {_listed(words)}.{meant}")


def _one_of(name: str, value: str, words: tuple[str, ...]) -> None:
    if value not in words:
        _word(name, repr(value), words)


def _listed(words: Iterable[str]) -> str:
    return ", ".join(words)
