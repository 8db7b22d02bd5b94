"""What the kernels are handed: tensors that do not fit are refused before a number of theirs is looked at."""

from __future__ import annotations

import ctypes
import resource
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils import dlpack

from heads import head, hidden, sketch_of
from vplug_logits import _kernels
from vplug_logits.config import Config
from vplug_logits.head import Head
from vplug_logits.kernels.cpu import CpuBackend
from vplug_logits.reference import dense

VOCABULARY, WIDTH, MANY = 130, 12, 3
WEIGHT, STATES = head(VOCABULARY, WIDTH), hidden(MANY, WIDTH, seed=3)
SKETCH = sketch_of(WEIGHT, hidden(50, WIDTH), 4)
PARTS = {name: getattr(SKETCH, name) for name in ("codes", "scale", "residual", "transform", "mean")}
REFUSED = (TypeError, ValueError)


def lent(tensor: Any) -> Any:
    """A capsule of a tensor or an array; anything else as it is."""
    if isinstance(tensor, torch.Tensor):
        return dlpack.to_dlpack(tensor)  # type: ignore[attr-defined]  # not in its list of names
    return tensor.__dlpack__() if isinstance(tensor, np.ndarray) else tensor


def sketched(**parts: Any) -> _kernels.Sketch:
    tensors = {name: lent(part) for name, part in {**PARTS, **parts}.items()}
    return _kernels.Sketch(VOCABULARY, WIDTH, 4, SKETCH.unit, **tensors)


def held(weight: Any = WEIGHT, sketch: _kernels.Sketch | None = None, **more: Any) -> _kernels.Head:
    rules: dict[str, Any] = {"dtype": "float32", "rows": 4, "limit": 64, "share": 1.0, "possible": 1.0}
    rules |= {"of_state": 10.0, "of_transformed": 10.0, "cap": None, "estimates": True}
    return _kernels.Head(sketch or sketched(), lent(weight), **{**rules, **more})


def odd(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The same numbers or the same shape, in another type or order; and other shapes."""
    yield tensor.to(torch.float64)
    yield tensor.to(torch.int8)
    yield tensor[:-1]
    yield torch.cat([tensor, tensor[:1]])
    yield tensor[None]
    yield tensor[:0]
    yield tensor.reshape(-1)[0]
    yield tensor[:1].expand_as(tensor)
    yield torch.stack([tensor, tensor], dim=-1)[..., 0]
    if tensor.dim() > 1:
        yield tensor.transpose(0, 1)
        yield tensor.transpose(0, 1).contiguous().transpose(0, 1)
        yield tensor.reshape(-1)


def no_capsules() -> list[Any]:
    used = lent(torch.zeros(4))
    dlpack.from_dlpack(used)
    return [None, 7, b"dltensor", torch.zeros(4), np.zeros(4), used]


# Sketches and heads.


def test_what_is_as_it_should_be_is_taken() -> None:
    out = torch.full((MANY, VOCABULARY), torch.nan)
    outcomes, *_ = held().step(lent(STATES), lent(out), lent(WEIGHT), 1e-6, 1)
    assert outcomes == bytes(MANY)
    assert torch.equal(out.argmax(1), dense.logits(WEIGHT, STATES).argmax(1))


@pytest.mark.parametrize("name", PARTS)
def test_a_part_of_a_sketch_that_does_not_fit_is_refused_and_named(name: str) -> None:
    for part in [*odd(PARTS[name]), *no_capsules()]:
        with pytest.raises(REFUSED, match=f"{name}: "):
            sketched(**{name: part})


@pytest.mark.parametrize(
    ("wrong", "text"),
    [((0, WIDTH, 4), "rows"), ((VOCABULARY, 0, 4), "numbers"), ((VOCABULARY, 70_000, 4), "numbers")]
    + [((VOCABULARY, WIDTH, bits), "bits") for bits in (0, 3, 16)],
)
def test_a_sketch_of_no_size_is_refused(wrong: tuple[int, int, int], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        _kernels.Sketch(*wrong, SKETCH.unit, **{name: lent(part) for name, part in PARTS.items()})


def test_instructions_that_nobody_knows_are_refused_with_those_that_are_known() -> None:
    with pytest.raises(ValueError, match=r"portable.*avx2.*avx512|avx512.*avx2.*portable"):
        CpuBackend("sse2")


@pytest.mark.parametrize(
    "weight",
    [
        WEIGHT.double(),
        WEIGHT.to(torch.int32),
        WEIGHT[:-1],
        WEIGHT[:, :-1],
        WEIGHT[:, ::2],
        WEIGHT[0],
        WEIGHT[None],
        WEIGHT[:0],
        WEIGHT[:1].expand(VOCABULARY, -1),
        WEIGHT.T,
        WEIGHT.T.contiguous().T,
        WEIGHT.numpy()[::-1],
        WEIGHT.reshape(-1).as_strided((VOCABULARY, WIDTH), (WIDTH - 1, 1)),
        *no_capsules(),
    ],
)
def test_a_weight_that_does_not_fit_is_refused(weight: Any) -> None:
    with pytest.raises(REFUSED, match="weight: "):
        held(weight)


@pytest.mark.parametrize("wrong", [{"dtype": "float64"}, {"rows": 0}, {"rows": 65}])
def test_rules_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        held(**wrong)


# A step.


def wrong_outs() -> Iterator[Any]:
    whole = torch.zeros(MANY, VOCABULARY)
    yield from (whole[:, :-1], whole[:-1], whole[0], whole[None], whole.double(), whole.bfloat16(), whole[:0])
    yield from (whole[:1].expand(MANY, -1), torch.zeros(VOCABULARY, MANY).T, torch.zeros(MANY, 2 * VOCABULARY)[:, ::2])
    yield from (torch.zeros(MANY, VOCABULARY + 1)[:, 1:], torch.zeros(MANY, 2 * VOCABULARY)[:, :VOCABULARY])
    yield from no_capsules()


def test_an_output_that_does_not_fit_is_refused() -> None:
    ours = held()
    for out in wrong_outs():
        with pytest.raises(REFUSED, match="out"):
            ours.step(lent(STATES), lent(out), lent(WEIGHT), 1e-6, 2)


def test_states_that_do_not_fit_are_refused_and_nothing_is_written() -> None:
    ours, out = held(), torch.full((MANY, VOCABULARY), 7.0)
    wrong = [STATES[:, :-1], STATES[:-1], STATES[0], STATES[None], STATES.double(), STATES.long(), STATES.T, STATES[:0]]
    for states in [*wrong, *no_capsules()]:
        with pytest.raises(REFUSED, match="states"):
            ours.step(lent(states), lent(out), lent(WEIGHT), 1e-6, 2)
    assert bool((out == 7.0).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_states_of_any_strides_give_the_bits_of_contiguous_ones(dtype: torch.dtype) -> None:
    ours, states = held(), STATES.to(dtype)

    def answered(given: Any, many: int = MANY) -> torch.Tensor:
        out = torch.full((many, VOCABULARY), torch.nan)
        assert ours.step(lent(given), lent(out), lent(WEIGHT), 1e-6, 1)[0] == bytes(many)
        return out

    wanted = answered(states)
    spread = torch.zeros(MANY, 2 * WIDTH, dtype=dtype)
    spread[:, 1::2] = states
    assert torch.equal(answered(spread[:, 1::2]), wanted)
    assert torch.equal(answered(states.T.contiguous().T), wanted)
    assert torch.equal(answered(states[:1].expand(4, -1), 4), wanted[:1].expand(4, -1))
    if dtype is not torch.bfloat16:  # numpy has none
        assert torch.equal(answered(np.ascontiguousarray(states.numpy()[::-1, ::-1])[::-1, ::-1]), wanted)


def test_an_output_that_overlaps_what_is_read_is_refused() -> None:
    room = torch.zeros(40_000)
    states = room[: MANY * WIDTH].view(MANY, WIDTH)
    weight = room[1000 : 1000 + VOCABULARY * 20].view(VOCABULARY, 20)[:, :WIDTH]  # with gaps between its rows
    weight.copy_(WEIGHT)
    ours = held(weight)
    size = MANY * VOCABULARY

    def out_at(start: int) -> torch.Tensor:
        return room[start : start + size].view(MANY, VOCABULARY)

    before = room.clone()
    last = 1000 + (VOCABULARY - 1) * 20 + WIDTH  # behind the last number of the weight
    for start in (0, MANY * WIDTH - 1, 1000 - size + 1, 1000 + WIDTH, 1000 + 1500, last - 1):
        with pytest.raises(ValueError, match="overlap"):
            ours.step(lent(states), lent(out_at(start)), lent(weight), 1e-6, 1)
    assert torch.equal(room, before)
    assert ours.step(lent(states), lent(out_at(MANY * WIDTH)), lent(weight), 1e-6, 1)
    assert ours.step(lent(states), lent(out_at(last)), lent(weight), 1e-6, 1)


def test_of_more_states_than_there_is_room_for_none_is_copied() -> None:
    ours, states = held(), STATES[:1].expand(1 << 22, -1)  # one state in memory, 200 MB if they were copied
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match=f"out: {MANY} rows for {1 << 22} states"):
        ours.step(lent(states), lent(torch.zeros(MANY, VOCABULARY)), lent(WEIGHT), 1e-6, 1)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < (1 << 22) * WIDTH * 4 / (1 if sys.platform == "darwin" else 1024) / 2


def test_nothing_is_written_into_a_sketch() -> None:
    ours = sketched()
    mean = PARTS["mean"].expand(1, -1)
    with pytest.raises(ValueError, match="mean and out overlap"):
        ours.transform(lent(STATES[:1]), lent(mean))
    with pytest.raises(ValueError, match="mean and lost overlap"):
        ours.scan(lent(STATES[:1]), lent(torch.zeros(1, VOCABULARY)), lent(PARTS["mean"][:1]), 1)
    large = torch.zeros(VOCABULARY * MANY)
    large[:WIDTH] = PARTS["mean"]
    whole = held(sketch=sketched(mean=large[:WIDTH]))
    with pytest.raises(ValueError, match="mean and out overlap"):
        whole.step(lent(STATES), lent(large.view(MANY, VOCABULARY)), lent(WEIGHT), 1e-6, 1)


# Single kernels.


@pytest.mark.parametrize("argument", [0, 1])
def test_a_transform_takes_states_and_an_output_of_their_shape(argument: int) -> None:
    ours = sketched()
    for wrong in [*odd(STATES), *no_capsules()]:
        tensors = [STATES, torch.zeros_like(STATES)]
        tensors[argument] = wrong
        with pytest.raises(REFUSED, match=r"states|out"):
            ours.transform(*map(lent, tensors))


@pytest.mark.parametrize("argument", [0, 1, 2])
def test_a_scan_takes_states_estimates_and_what_was_lost(argument: int) -> None:
    ours = sketched()
    right = [STATES, torch.zeros(MANY, VOCABULARY), torch.zeros(MANY)]
    for wrong in [*odd(right[argument]), *no_capsules()]:
        tensors = list(right)
        tensors[argument] = wrong
        with pytest.raises(REFUSED, match=r"transformed|out|lost"):
            ours.scan(lent(tensors[0]), lent(tensors[1]), lent(tensors[2]), 2)


def rescored(**more: Any) -> None:
    tensors: dict[str, Any] = {"weight": WEIGHT, "rows": torch.tensor([0, 129, 5]), "owners": torch.tensor([0, 1, 2])}
    tensors |= {"states": STATES, "out": torch.zeros(3), **more}
    _kernels.rescore(*map(lent, tensors.values()), threads=1)


@pytest.mark.parametrize("name", ["weight", "rows", "owners", "states", "out"])
def test_rescoring_takes_nothing_that_does_not_fit(name: str) -> None:
    rescored()
    wrong: dict[str, list[Any]] = {
        "weight": [WEIGHT.T, WEIGHT[0], WEIGHT[:, :-1], WEIGHT.double(), WEIGHT[:5]],
        "rows": [torch.tensor(rows) for rows in ([0, 130, 5], [0, -1, 5], [0, 2**62, 5], [0, 1], [[0, 1, 2]])],
        "owners": [torch.tensor(owners) for owners in ([0, 1, 3], [-1, 1, 2], [0, 1], [0, 1, 2, 2])],
        "states": [STATES[:, :-1], STATES[0], STATES.double(), STATES[:1], STATES.T, STATES[:1].expand(3, -1)],
        "out": [torch.zeros(2), torch.zeros(4), torch.zeros(3, 1), torch.zeros(3).double(), torch.zeros(6)[::2]],
    }
    ids = torch.tensor([0, 9, 129, 9, 5, 9])
    wrong["rows"] += [ids[::2], ids[::2].int(), torch.zeros(1, dtype=torch.int64).expand(3)]
    for tensor in [*wrong[name], *no_capsules()]:
        with pytest.raises(REFUSED):
            rescored(**{name: tensor})


def test_rescoring_writes_into_nothing_that_it_reads() -> None:
    for out in (STATES[0, :3], WEIGHT[7, 2:5]):
        with pytest.raises(ValueError, match="overlap"):
            rescored(out=out)
    _kernels.rescore(*map(lent, (WEIGHT, *torch.empty(2, 0).long(), STATES, torch.zeros(0))), threads=1)


def test_reading_takes_bytes_that_lie_in_one_piece() -> None:
    codes = PARTS["codes"]
    assert _kernels.read(lent(codes), 1) == _kernels.read(lent(codes), 3)
    _kernels.read(lent(codes[:0]), 2)
    for wrong in [codes[::2], codes.transpose(0, 1), codes.to(torch.int8), codes[:1].expand_as(codes), *no_capsules()]:
        with pytest.raises(REFUSED, match="tensor: "):
            _kernels.read(lent(wrong), 1)


# Capsules that no torch makes.


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("kind", ctypes.c_int32),
        ("number", ctypes.c_int32),
        ("dimensions", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


_kept: list[Any] = []  # what the capsules below point to


def made_up(numbers: torch.Tensor, **more: Any) -> Any:
    """A capsule of contiguous bytes, with fields of its own; nobody deletes it."""
    shape = (ctypes.c_int64 * 4)(*more.pop("shape", numbers.shape))
    fields = {"data": numbers.data_ptr(), "kind": 1, "dimensions": numbers.dim(), "code": 1, "bits": 8, "lanes": 1}
    tensor = _Tensor(**{**fields, **more})
    tensor.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
    _kept.append((tensor, shape, numbers))
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return capsule(ctypes.addressof(tensor), b"dltensor", None)


def test_a_tensor_on_another_device_is_refused_and_one_without_strides_is_contiguous() -> None:
    codes = PARTS["codes"].clone()
    assert _kernels.read(made_up(codes), 1) == _kernels.read(lent(codes), 1)
    for kind in (2, 10):
        with pytest.raises(TypeError, match=f"kind {kind}, number 5; these kernels run on the CPU"):
            _kernels.read(made_up(codes, kind=kind, number=5), 1)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"lanes": 4}, "uint8"),
        ({"bits": 16}, "uint8"),
        ({"data": None}, "missing"),
        ({"shape": (-1, 3, 64, 4)}, ""),
        ({"shape": (2**62, 2**62, 64, 4)}, ""),
    ],
)
def test_what_a_capsule_says_is_not_believed(wrong: dict[str, Any], text: str) -> None:
    codes = PARTS["codes"].clone()
    with pytest.raises(REFUSED, match=f"codes: .*{text}"):
        sketched(codes=made_up(codes, **wrong))


def test_numbers_that_are_not_aligned_are_refused() -> None:
    spare = torch.zeros(4 * WIDTH + 8, dtype=torch.uint8)
    shape = {"shape": (WIDTH, 0, 0, 0), "dimensions": 1, "code": 2, "bits": 32}
    sketched(mean=made_up(spare, **shape))
    with pytest.raises(ValueError, match="mean: the memory is missing or not aligned"):
        sketched(mean=made_up(spare, **shape, byte_offset=1))


def test_the_memory_of_a_sketch_is_kept_for_as_long_as_it_is_lent() -> None:
    def answers(ours: _kernels.Head) -> torch.Tensor:
        out = torch.zeros(MANY, VOCABULARY)
        ours.step(lent(STATES), lent(out), lent(WEIGHT), 1e-6, 1)
        return out

    wanted = answers(held())
    ours = held(sketch=sketched(codes=PARTS["codes"].clone()))  # nobody else holds these
    filled = [torch.full_like(PARTS["codes"], 9) for _ in range(20)]
    assert torch.equal(answers(ours), wanted)
    del filled


def test_a_weight_is_lent_for_a_step_and_not_kept() -> None:
    memory = WEIGHT.numpy().copy()
    weight, gone = torch.from_numpy(memory), weakref.ref(memory)
    ours = held(weight)
    ours.step(lent(STATES), lent(torch.zeros(MANY, VOCABULARY)), lent(weight), 1e-6, 1)
    assert gone() is memory
    del weight, memory
    assert gone() is None


@pytest.mark.parametrize("other", [WEIGHT.clone(), WEIGHT[:-1], WEIGHT.T, WEIGHT.view(torch.int32)])
def test_another_weight_than_the_one_it_was_made_for_is_refused(other: torch.Tensor) -> None:
    out = torch.full((MANY, VOCABULARY), 7.0)
    with pytest.raises(ValueError, match="weight: it is not where it was"):
        held().step(lent(STATES), lent(out), lent(other), 1e-6, 1)
    assert bool((out == 7.0).all())


# A weight that goes away between two steps.


def _resized(weight: torch.Tensor) -> None:
    weight.untyped_storage().resize_(0)


def _swapped(weight: torch.Tensor) -> None:
    weight.data = weight.data.clone()


def _shortened(weight: torch.Tensor) -> None:
    weight.data = weight.data[:5]


@pytest.mark.parametrize("change", [_resized, _swapped, _shortened])
@pytest.mark.parametrize("mode", ["exact", "safe", "fast"])
def test_a_weight_whose_memory_was_freed_or_swapped_is_not_read(
    mode: str, change: Callable[[torch.Tensor], None]
) -> None:
    weight = torch.nn.Parameter(WEIGHT.clone(), requires_grad=False)
    config = Config.of(mode, rows=4)
    sketch = sketch_of(WEIGHT, hidden(50, WIDTH), config.bits)
    answer = torch.full((MANY, VOCABULARY), 42.0)
    ours = Head(weight, config, sketch=sketch, backend=CpuBackend(), dense=lambda given: answer[: len(given)])
    ours.logits(STATES)
    ours.counters.reset()
    change(weight)

    assert torch.equal(ours.logits(STATES), answer)
    assert ours.counters.snapshot()["fallbacks"] == {"weight": MANY}
