"""What candidates are called, for tables and plots that need no torch."""

from __future__ import annotations

TORCH = "torch"
RANDOM = "random"
"""The source of a head that is no model's."""
FLOAT32, BFLOAT16, INT8, INT4 = "torch float32", "torch bfloat16", "int8 dense", "int4"
TORCH_INT8, TORCH_AO = "torch int8", "torch.ao int8"
TOP = "2 bit R = 128"
OVER = (FLOAT32, BFLOAT16, INT8)
"""What others are told as multiples of."""

MODE, BASELINE, READ = "mode", "baseline", "read"
