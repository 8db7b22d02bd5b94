"""The header of a safetensors file against its length: what is not whole is refused before anybody maps it.

The format: 8 bytes with the header's length N (little endian), N bytes of JSON, then the data without gaps.
https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

from vplug_rs.lora.adapter import document
from vplug_rs.lora.refusal import Refusal, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_HEADER_BYTES = 32 << 20
_MOST_DIMENSIONS, _MOST_EXTENT = 16, 1 << 48
_PREFIX = 8
_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "U16": 16, "I16": 16, "F16": 16, "BF16": 16, "U32": 32, "I32": 32, "F32": 32, "U64": 64, "I64": 64, "F64": 64,
    "C64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip


def check(descriptor: int, where: str) -> int:
    """Checks the header of an open file.

    Args:
        descriptor: Of a regular file; its position is not used.
        where: What to call it in a message.

    Returns:
        The number of tensors, at least 1.

    Raises:
        Refusal: `weights-invalid`.
        OSError: the file cannot be read.
    """
    size = os.fstat(descriptor).st_size
    prefix = os.pread(descriptor, _PREFIX, 0)
    if len(prefix) < _PREFIX:
        raise _refusal(where, f"it has {size} bytes, and the length of its header alone takes {_PREFIX}")
    length = int.from_bytes(prefix, "little")
    if length > size - _PREFIX:
        raise _refusal(where, f"its header claims {length} bytes, and {size - _PREFIX} follow")
    if length > MOST_HEADER_BYTES:
        raise _refusal(where, f"its header has {length} bytes, and {MOST_HEADER_BYTES} are allowed")
    data = os.pread(descriptor, length, _PREFIX)
    if len(data) != length or not data.startswith(b"{"):
        raise _refusal(where, "its header is no JSON object")
    header = document(data, lambda fault: _refusal(where, f"its header: {fault}"))
    _metadata(header.pop("__metadata__", {}), where)
    end = 0
    # empty tensors lie between two others, and come before what starts at the same place
    for first, last, name in sorted(_tensors(header, where)):
        if first != end:
            raise _refusal(where, f"the tensor {shown(name)} starts at byte {first}, and the one before ends at {end}")
        end = last
    if end != size - _PREFIX - length:
        raise _refusal(where, f"its tensors end at byte {end}, and its data at {size - _PREFIX - length}")
    if not header:
        raise _refusal(where, "it has no tensor")
    return len(header)


def _metadata(found: Any, where: str) -> None:
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise _refusal(where, "its `__metadata__` is no object of texts")


def _tensors(header: dict[str, Any], where: str) -> Iterator[tuple[int, int, str]]:
    for name, entry in header.items():
        keys = {"dtype", "shape", "data_offsets"}
        if not isinstance(entry, dict) or entry.keys() != keys:
            raise _refusal(where, f"the tensor {shown(name)} has not exactly the keys `dtype`, `shape`, `data_offsets`")
        bits = _BITS.get(entry["dtype"]) if isinstance(entry["dtype"], str) else None
        if bits is None:
            raise _refusal(where, f"the tensor {shown(name)} has the unknown dtype {shown(entry['dtype'])}")
        shape, offsets = entry["shape"], entry["data_offsets"]
        if not _are_extents(shape) or len(shape) > _MOST_DIMENSIONS:
            raise _refusal(where, f"the tensor {shown(name)} has the impossible shape {shown(shape)}")
        if not _are_extents(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:  # noqa: PLR2004  # from, to
            raise _refusal(where, f"the tensor {shown(name)} has the impossible offsets {shown(offsets)}")
        if math.prod(shape) * bits != (offsets[1] - offsets[0]) * 8:
            raise _refusal(where, f"the tensor {shown(name)} has {offsets[1] - offsets[0]} bytes, unlike its shape")
        yield offsets[0], offsets[1], name


def _are_extents(value: Any) -> bool:
    return isinstance(value, list) and all(type(one) is int and 0 <= one < _MOST_EXTENT for one in value)


def _refusal(where: str, fault: str) -> Refusal:
    return Refusal(
        "weights-invalid", f"{where}: {fault}", hint="Save the adapter again, or copy it again: it is damaged."
    )
