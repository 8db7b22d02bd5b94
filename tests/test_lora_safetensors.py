"""A safetensors header against its file: whole files pass, each damage is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from lora_lab import weights
from vplug_rs.lora import safetensors
from vplug_rs.lora.refusal import Refusal


def one(**changes: Any) -> dict[str, Any]:
    entry = {"dtype": "F16", "shape": [4, 4], "data_offsets": [0, 32], **changes}
    return {"t": {key: value for key, value in entry.items() if value is not ...}}


def two(first: list[int], second: list[int]) -> dict[str, Any]:
    return {
        name: {"dtype": "U8", "shape": [offsets[1] - offsets[0]], "data_offsets": offsets}
        for name, offsets in (("a", first), ("b", second))
    }


TEXT = json.dumps(one()).encode()
DAMAGED: dict[str, bytes] = {
    "empty": b"",
    "seven bytes": b"\0" * 7,
    "no header": b"\0" * 8,
    "zeros": b"\0" * 4096,
    "a pickle": b"\x80\x02}q\x00." + b"\0" * 100,
    "a zip": b"PK\x03\x04" + b"\0" * 100,
    "length beyond the file": weights(length=1 << 20),
    "length of 2**64-1": weights(length=(1 << 64) - 1),
    "length of 2**63": weights(length=1 << 63),
    "length one short": weights(length=len(TEXT) - 1, header=TEXT),
    "length one long": weights(length=len(TEXT) + 1, header=TEXT),
    "no JSON": weights(header=b"{nothing"),
    "a list": weights(header=b"[]"),
    "blank before": weights(header=b" " + TEXT),
    "repeated tensor": weights(header=b'{"t": 1, ' + TEXT[1:]),
    "NaN": weights(header=b'{"t": NaN}'),
    "not UTF-8": weights(header=b'{"\xff": 1}'),
    "deep": weights(header=b'{"t":' * 10_000 + b"1" + b"}" * 10_000),
    "no tensor": weights(header={}, data=b""),
    "metadata alone": weights(header={"__metadata__": {"format": "pt"}}, data=b""),
    "metadata of numbers": weights(header={"__metadata__": {"a": 1}, **one()}),
    "metadata as a list": weights(header={"__metadata__": [], **one()}),
    "tensor as a list": weights(header={"t": [0, 32]}),
    "null": weights(header={"t": None}),
    "cut data": weights(data=b"x" * 31),
    "more data": weights(data=b"x" * 33),
    "no data": weights(data=b""),
    "hole before": weights(header=one(data_offsets=[1, 33]), data=b"x" * 33),
    "hole between": weights(header=two([0, 8], [9, 33]), data=b"x" * 33),
    "overlap": weights(header=two([0, 20], [12, 32])),
    "the same bytes twice": weights(header=two([0, 32], [0, 32])),
}
HEADERS: list[dict[str, Any]] = [
    *({key: ...} for key in ("dtype", "shape", "data_offsets")),
    {"extra": 1},
    *({"dtype": value} for value in ("f16", "F15", "", None, 1, ["F16"], "Q4_0", "F32")),
    *(
        {"shape": value}
        for value in (None, 16, "4,4", [4], [4, 4.0], [-4, -4], [4, "4"], [True, 16], [1 << 70], [1] * 17)
    ),
    {"shape": [1 << 40] * 8},
    *(
        {"data_offsets": value}
        for value in (
            None,
            32,
            [0],
            [0, 32, 32],
            [32, 0],
            [-1, 31],
            [0, 1 << 62],
            [0.0, 32],
            ["0", "32"],
            [0, True],
            {"a": 1},
        )
    ),
]
DAMAGED |= {str(changes): weights(header=one(**changes)) for changes in HEADERS}


def check(path: Path, data: bytes) -> int:
    path.write_bytes(data)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return safetensors.check(descriptor, "`it`")
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_refused(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(Refusal) as caught:
        check(tmp_path / "w", data)
    assert caught.value.code == "weights-invalid"
    assert str(caught.value).startswith("`it`: ")
    assert str(caught.value).isprintable()


def test_a_header_beyond_the_limit_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "w"
    with path.open("wb") as file:
        file.write((safetensors.MOST_HEADER_BYTES + 1).to_bytes(8, "little"))
        file.truncate(safetensors.MOST_HEADER_BYTES * 2)
    with pytest.raises(Refusal, match="33554433 bytes, and 33554432 are allowed"), path.open("rb") as opened:
        safetensors.check(opened.fileno(), "it")


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (weights(), 1),
        (weights(header={"__metadata__": {"format": "pt"}, **one()}), 1),
        (weights(header=json.dumps(one()).encode() + b"   "), 1),
        (weights(header=two([16, 32], [0, 16])), 2),
        (weights(header=two([32, 32], [0, 32])), 2),
        (weights(header=two([0, 0], [0, 32])), 2),
        (weights(header=one(dtype="F4", shape=[64])), 1),
        (weights(header=one(dtype="BF16", shape=[16])), 1),
        (weights(header=one(shape=[], dtype="F64", data_offsets=[0, 8]), data=b"x" * 8), 1),
    ],
    ids=range(9),
)
def test_a_whole_file_passes(data: bytes, count: int, tmp_path: Path) -> None:
    assert check(tmp_path / "w", data) == count
