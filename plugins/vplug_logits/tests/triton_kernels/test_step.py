from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from heads import hidden
from triton_cases import ROUNDED, Case, exact, must, poison, run
from vplug_logits.after import After
from vplug_logits.config import Config
from vplug_logits.errors import BadInputError
from vplug_logits.head import Head
from vplug_logits.kernels.plain import PlainBackend
from vplug_logits.kernels.triton_step import TritonStep
from vplug_logits.reference import sketch as reference

F32, BF16, F16 = torch.float32, torch.bfloat16, torch.float16

MODES = [("exact", 8), ("safe", 1), ("safe", 2), ("safe", 4), ("fast", 1), ("fast", 2)]
CASES = [
    *(Case(mode, bits, 300, 72, 2) for mode, bits in MODES),
    *(Case(mode, bits, 461, 70, 3, rows=16, dtype=dtype) for mode, bits in MODES for dtype in (BF16, F16)),
    *(Case(mode, bits, 461, 46, 1, rows=12) for mode, bits in MODES),
    Case("exact", 8, 300, 33, 17, rows=8),
    Case("safe", 2, 300, 130, 17, rows=8, dtype=BF16),
    Case("fast", 1, 300, 131, 17, rows=8, dtype=F16),
    Case("safe", 2, 1037, 46, 3, rows=32),  # groups of 16 rows
    Case("safe", 2, 500, 46, 3, rows=32),  # groups of 4
    Case("safe", 2, 130, 46, 3, rows=60),  # single rows
    Case("fast", 2, 65, 5, 3, rows=200),  # all rows
    Case("exact", 8, 1, 1, 1),
    Case("fast", 1, 64, 4, 1, rows=1),
    Case("safe", 2, 350, 72, 3, dtype=BF16, logits=F32),
    Case("safe", 2, 350, 72, 3, dtype=F32, logits=F16),
    Case("safe", 2, 350, 72, 3, cap=30.0),
    Case("exact", 8, 350, 72, 3, cap=20.0, dtype=BF16),
    Case("safe", 2, 350, 72, 3, outside="-inf"),
    Case("fast", 2, 350, 72, 3, outside="-inf", dtype=BF16),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_step_gives_exact_logits_where_a_row_can_win_and_estimates_elsewhere(case: Case) -> None:
    states, step = case.states, case.step()
    dtype = case.logits or case.dtype
    out, outcome = run(case, step, states)
    values, needed = exact(case, states), must(case, states)
    estimates, _ = reference.estimates(case.sketch, states)
    scratch = step.scratch(1 << (case.many - 1).bit_length())
    slack = scratch.constants[3, : case.many, None].double()
    scanned = scratch.estimates[: case.many].double()
    rounding = ROUNDED[dtype] * values.abs().clamp_min(float(values.abs().mean()))

    assert outcome.status.tolist() == [0] * case.many
    assert ((scanned - estimates).abs() <= slack).all()
    right = (out.double() - values).abs() <= rounding
    assert right[needed].all()
    assert (outcome.rescored >= needed.sum(1)).all()
    assert (outcome.rescored <= needed.sum(1) + max(8, case.rows)).all()
    if case.outside == "-inf":
        assert (right | (out == -torch.inf)).all()
        assert torch.equal((out > -torch.inf).sum(1), outcome.rescored)
    else:
        assert (right | ((out.double() - estimates).abs() <= slack + rounding) | (outcome.clipped > 0)[:, None]).all()
    top = values.amax(1)
    won = values.gather(1, out.argmax(1, keepdim=True))[:, 0]
    if case.mode != "fast":
        assert (won >= top - After(case.cap).margin(top, dtype)).all()
        assert not outcome.clipped.any()


@pytest.mark.parametrize(("mode", "bits"), [("exact", 8), ("safe", 2), ("fast", 2)])
def test_the_rows_that_the_torch_backend_rescores_have_the_same_logits(mode: str, bits: int) -> None:
    case = Case(mode, bits, 700, 72, 3)
    states = case.states
    config = Config.of(mode, bits=bits, rows=case.rows)
    wanted = Head(case.weight, config, sketch=case.sketch, backend=PlainBackend()).logits(states)
    found, _ = run(case, case.step(), states)
    rescored = must(case, states)

    assert torch.equal(found.argmax(1), wanted.argmax(1))
    assert torch.allclose(found[rescored], wanted[rescored], rtol=1e-5, atol=1e-4)
    # Estimates are those of h' in float16; what is rescored here and not there is within the error of the codes.
    spread = float((wanted - exact(case, states)).abs().amax())
    assert float((found - wanted).abs().amax()) <= spread + 0.1


@pytest.mark.parametrize(
    "case",
    [
        Case("safe", 1, 600, 46, 2, rows=2),
        Case("safe", 2, 600, 46, 2, rows=1),
        Case("safe", 1, 600, 72, 1, rows=1, outside="-inf"),
    ],
    ids=str,
)
def test_the_last_program_rescores_the_rows_of_a_window_that_is_wider_than_the_best_rows(case: Case) -> None:
    states = case.states
    out, outcome = run(case, case.step(), states)
    values, needed = exact(case, states), must(case, states)

    assert (needed.sum(1) > 10 * case.rows).all()
    assert outcome.status.tolist() == [0] * case.many
    assert (outcome.rescored >= needed.sum(1)).all()
    assert torch.allclose(out.double()[needed], values[needed], rtol=1e-5, atol=1e-4)
    assert torch.equal(out.argmax(1), values.argmax(1))


def test_without_a_window_estimates_above_the_winner_are_lowered_and_counted() -> None:
    case = Case("fast", 1, 700, 46, 17, rows=1)
    states, step = case.states, case.step()
    out, outcome = run(case, step, states)
    scanned = step.scratch(32).estimates[:17]
    taken = (out - exact(case, states)).abs() <= 1e-4 * exact(case, states).abs().clamp_min(1.0)
    top = torch.where(taken & (scanned != out), out, -torch.inf).amax(1)
    ceiling = (top.double() - After().margin(top, F32)).float()
    high = (scanned > ceiling[:, None]) & (out <= ceiling[:, None]) & ~(taken & (scanned != out))

    assert outcome.clipped.sum() > 0
    assert torch.equal(outcome.clipped, high.sum(1).int())
    assert torch.equal(out[high], ceiling[:, None].expand_as(out)[high])
    assert torch.equal(out.amax(1), top)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy, of states that are not finite
def test_a_state_that_cannot_be_answered_is_told_and_leaves_the_others_as_they_are() -> None:
    case = Case("safe", 2, 300, 72, 7, rows=8)
    states = case.states
    alone, _ = run(case, case.step(limit=100), states)
    states[1, 5] = torch.nan
    states[2, 0] = -torch.inf
    states[3] = 0  # all rows are equally good
    states[4] *= 1e25
    found, outcome = run(case, case.step(limit=100), states)
    told = [slug for slug, _, _ in outcome.read()]

    assert told == [None, "states", "states", "window", "overflow", None, None]
    fine = [0, 5, 6]
    assert torch.equal(found[fine], alone[fine])


@pytest.mark.parametrize("factor", [1e-25, 1e-6, 1e6, 1e12])
def test_the_size_of_a_state_does_not_matter(factor: float) -> None:
    case = Case("safe", 2, 300, 72, 2, rows=8)
    states = case.states * factor
    out, outcome = run(case, case.step(), states)
    values = exact(case, states)

    assert outcome.status.tolist() == [0, 0]
    assert torch.equal(out.argmax(1), values.argmax(1))
    assert torch.allclose(out.double().amax(1), values.amax(1), rtol=1e-5, atol=0)


def test_a_window_beyond_the_limit_is_told() -> None:
    case = Case("safe", 1, 600, 46, 3, rows=2)
    _, outcome = run(case, case.step(limit=20), case.states)
    assert [slug for slug, _, _ in outcome.read()] == ["window"] * 3


def test_a_live_logit_that_its_code_cannot_explain_is_told() -> None:
    case = Case("exact", 8, 600, 72, 2)
    weight = case.weight.clone()
    step = case.step(weight=weight)
    assert run(case, step, case.states)[1].status.tolist() == [0, 0]
    weight[int(exact(case, case.states)[0].argmax())] *= 1.5
    assert "drift" in [slug for slug, _, _ in run(case, step, case.states)[1].read()]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy, of what float16 cannot hold
@pytest.mark.parametrize("factor", [1e4, float("nan")])
def test_a_best_logit_that_is_not_finite_is_told(factor: float) -> None:
    case = Case("safe", 2, 600, 72, 2, logits=F16)
    weight = case.weight.clone()
    step = case.step(weight=weight)
    best = exact(case, case.states).argmax(1)
    weight[best] *= factor  # after the step was made, so that its bounds are those of a finite weight
    assert [slug for slug, _, _ in run(case, step, case.states)[1].read()] == ["overflow"] * 2


def test_a_step_leaves_nothing_behind_for_the_next() -> None:
    case = Case("safe", 2, 200, 46, 4, rows=8)
    states, others, step = case.states, hidden(4, 46, seed=9), case.step()
    first, _ = run(case, step, states)
    run(case, step, others)
    again, _ = run(case, step, states[:3])
    assert torch.equal(first[:3], again)
    poison(step, 4, 46, 2)
    assert torch.equal(run(case, step, states)[0], first)


def test_a_state_has_the_same_logits_in_every_batch() -> None:
    case = Case("safe", 2, 300, 46, 17, rows=8)
    states, step = case.states, case.step()
    together, outcome = run(case, step, states)
    for index in (0, 16):
        alone, single = run(case, step, states[index : index + 1])
        assert torch.allclose(alone, together[index : index + 1], rtol=1e-6, atol=1e-5)
        assert single.rescored[0] == outcome.rescored[index]


def test_more_states_than_one_launch_takes_are_answered_in_portions() -> None:
    case = Case("fast", 2, 130, 20, 70, rows=4)
    out, outcome = run(case, case.step(), case.states)
    assert outcome.status.tolist() == [0] * 70
    assert not out.isnan().any()
    assert (outcome.rescored >= 4).all()


def test_shards_answer_as_the_whole_vocabulary_does() -> None:
    """Of each shard its own R best are rescored, so the winner of the whole vocabulary is exact in its shard."""
    case = Case("safe", 2, 1280, 46, 3)
    sketch, weight, states = case.sketch, case.weight, case.states
    parts = []
    for start in (0, 640):
        shard = replace(
            sketch,
            vocabulary=640,
            codes=sketch.codes[start // 64 : start // 64 + 10],
            scale=sketch.scale[start : start + 640],
            residual=sketch.residual[start : start + 640],
        )
        step = TritonStep(
            weight[start : start + 640], shard, rows=32, limit=640, share=case.share, possible=case.possible
        )
        out = torch.full((3, 640), torch.nan)
        assert step.run(states, out).status.tolist() == [0, 0, 0]
        parts.append(out)
    assert torch.equal(torch.cat(parts, dim=1).argmax(1), exact(case, states).argmax(1))


def test_what_the_kernels_do_not_read_is_refused() -> None:
    case = Case("safe", 2, 300, 72, 2)
    step, states, out = case.step(), case.states, torch.empty(2, 300)
    for wrong in (states[:, :71], states.double(), states.T.contiguous().T, states[0], states[:0]):
        with pytest.raises(BadInputError, match="hand over"):
            step.run(wrong, out)
    for wrong in (out[:, :299], out.half(), out[:1], out.T.contiguous().T):
        with pytest.raises(BadInputError, match="hand over"):
            step.run(states, wrong)
    for weight in (case.weight[:299], case.weight[:, :70], case.weight.double(), case.weight.T.contiguous().T):
        with pytest.raises(BadInputError, match="do not fit"):
            case.step(weight=weight)
