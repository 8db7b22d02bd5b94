"""Kernels for CPUs, in Rust.  Private: its names change without notice."""

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

def build_info() -> dict[str, Any]: ...
def require(isa: str) -> None: ...
def encode(rows: NDArray[np.float64], bits: int, codes: NDArray[np.uint8], numbers: NDArray[np.float64]) -> None: ...
def read(tensor: object, threads: int) -> int: ...
def rescore(
    weight: object,
    rows: object,
    owners: object,
    states: object,
    out: object,
    *,
    threads: int,
    isa: str | None = None,
) -> None: ...

@final
class Sketch:
    def __new__(
        cls,
        vocabulary: int,
        width: int,
        bits: int,
        unit: float,
        *,
        codes: object,
        scale: object,
        residual: object,
        transform: object,
        mean: object,
        isa: str | None = None,
    ) -> Sketch: ...
    @property
    def isa(self) -> str: ...
    def transform(self, states: object, out: object) -> None: ...
    def scan(self, transformed: object, out: object, lost: object, threads: int, planes: int | None = None) -> None: ...

@final
class Head:
    def __new__(
        cls,
        sketch: Sketch,
        weight: object,
        *,
        dtype: str,
        rows: int,
        limit: int,
        share: float | None,
        possible: float,
        of_state: float,
        of_transformed: float,
        cap: float | None,
        estimates: bool,
    ) -> Head: ...
    def step(
        self, states: object, out: object, weight: object, lost: float, threads: int
    ) -> tuple[bytes, int, int, int, float, float]: ...
