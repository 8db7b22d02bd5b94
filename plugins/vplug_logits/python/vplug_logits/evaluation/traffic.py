"""Bytes that one step of one sequence reads, by formula.

Weights count two bytes, as a head is usually served, whatever dtype the evaluation runs in.  Rows that are read for
rescoring count whole; a step that falls back reads the dense head on top.  Not counted: states and logits.
"""

from __future__ import annotations

from dataclasses import dataclass

from vplug_logits.sketch import padded_rows, padded_width

WEIGHT = 2  # bytes of a weight
GROUP = 32  # weights that share one scale in the int4 baseline


@dataclass(frozen=True, slots=True)
class Shape:
    """A head: V rows of width d."""

    vocabulary: int
    width: int

    @property
    def dense(self) -> float:
        """2 V d."""
        return float(WEIGHT * self.vocabulary * self.width)

    def sketch(self, bits: int, rescored: float, *, numbers: int, fallback: float = 0.0) -> float:
        """V d b / 8 codes, the row numbers, T and the mean, the rescored rows, and what falls back.

        Args:
            bits: b.
            rescored: Rows of the live weight, on average.
            numbers: float16 numbers of each row that the step reads: 1 (scale), 2 (and residual) or 3 (and norm).
            fallback: Share of steps that are answered densely.
        """
        rows = padded_rows(self.vocabulary)
        codes = rows * padded_width(self.width, bits) * bits / 8
        constant = WEIGHT * self.width * self.width + 4 * self.width
        return codes + 2 * numbers * rows + constant + WEIGHT * self.width * rescored + fallback * self.dense

    def clusters(self, clusters: int, rows: float, *, centroid_bytes: int) -> float:
        """K centroids, the ids and the rows of the probed clusters.

        Args:
            clusters: K.
            rows: Rows that are scored.
            centroid_bytes: Of one coordinate of a centroid: 1 (int8, and a float32 scale) or 2.
        """
        centroids = clusters * (self.width * centroid_bytes + (4 if centroid_bytes == 1 else 0))
        return centroids + rows * (4 + WEIGHT * self.width)

    def int8(self) -> float:
        """V (d + 2): codes and a 16-bit scale for each row."""
        return float(self.vocabulary * (self.width + 2))

    def int4(self) -> float:
        """V (d / 2 + 2 d / 32): codes and a 16-bit scale for each 32 weights of a row."""
        groups = -(-self.width // GROUP)
        return float(self.vocabulary * (groups * GROUP / 2 + 2 * groups))
