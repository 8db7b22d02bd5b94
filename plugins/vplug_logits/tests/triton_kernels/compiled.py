"""Compile the kernels for GPUs that need not be here; print name, compute capability and bytes of shared memory."""

from __future__ import annotations

from typing import Any

import triton  # type: ignore[import-untyped]
from triton.backends.compiler import GPUTarget  # type: ignore[import-untyped]
from triton.compiler import ASTSource  # type: ignore[import-untyped]

from vplug_logits.kernels import triton_ops as ops

POINTERS = {
    "states": "*bf16", "weight": "*bf16", "matrix": "*bf16", "mean": "*fp32", "number": "*i32", "queries": "*fp16",
    "partials": "*fp32", "grow": "*fp32", "flags": "*i32", "histogram": "*i32", "tickets": "*i32", "best": "*fp32",
    "count": "*i32", "codes": "*i32", "scale": "*fp16", "residual": "*fp16", "estimates": "*fp32", "constants": "*fp32",
    "out": "*bf16", "highest": "*fp32", "status": "*i32", "rescored": "*i32", "clipped": "*i32",
}  # fmt: skip
FLOATS = {
    "down", "step", "shorter", "of_state", "of_transformed", "of_lost", "spread", "smallest", "share", "possible", "cap"
}  # fmt: skip
DIVISIBLE = {"width", "states_stride", "weight_stride", "half", "row_bytes", "lanes", "vocabulary"}


def compiled(name: str, capability: int, kernel: Any, options: dict[str, int], constants: dict[str, Any]) -> None:
    """Compile one, with pointers and strides as real heads have them."""
    names = kernel.arg_names
    kinds = {
        each: "constexpr" if each in constants else POINTERS.get(each, "fp32" if each in FLOATS else "i32")
        for each in names
    }
    hints = {
        (place,): [["tt.divisibility", 16]]
        for place, each in enumerate(names)
        if kinds[each].startswith("*") or each in DIVISIBLE
    }
    source = ASTSource(kernel, kinds, constants, hints)
    found = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    assert found.asm["cubin"]
    print(name, capability, found.metadata.shared)


for capability in (80, 90):
    compiled(
        "transform", capability, ops.transform_fwd_kernel, {"num_warps": 8},
        {"BITS": 2, "N": 16, "S": 8, "BK": 64, "BN": 16, "ZERO": 1024},
    )  # fmt: skip
    compiled(
        "rescore", capability, ops.rescore_fwd_kernel, {"num_warps": 4},
        {
            "N": 16, "WINDOWED": capability == 90, "OUTSIDE": True, "CAP": capability == 80, "EPSILON": 2.0**-7,
            "TINY": 2.0**-126, "ROWS": 256, "GATHER": 4, "BD": 512, "TILES": 1024,
        },
    )  # fmt: skip
    for bits in (1, 2, 8):
        compiled(
            f"scan{bits}", capability, ops.scan_fwd_kernel.fn.fn, {"num_warps": 4, "num_stages": 2},
            {
                "BITS": bits, "N": 64 if bits == 2 else 16, "PARTIALS": 64, "GROUP": 16, "EVEN": bits == 2,
                "BLOCKS": 1, "LANES": 16,
            },
        )  # fmt: skip
