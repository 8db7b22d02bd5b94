# ruff: noqa: ANN001, ANN202, ANN201, N803, PLR0913, PLR0915, PLR0917, PLR0912, C901  # kernels: constexpr in capitals
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""The three kernels of a step on a GPU: transform; scan; select, rescore and write.

Importing this module imports Triton; nothing here looks at a device.  What the tensors are is said in `triton_step`.

    b, K        bits of a code, 2^b - 1; the level of code c is u = (2c - K) / 2
    h, h'       the state, and h T
    g           h' 2^-x D, x the exponent of max |h_i| and D a power of two of the head: |g| <= 2^15 whatever h is
    e           scale_i u_i . h' + mean . h

**Where threads share.**  `histogram`, `best`, `count` and `flags` are only added to (or, max) by relaxed atomics within
a launch, which commute, and are read in the next launch or after the ticket below; each other number has one writer in
a launch.  A launch sees all that the launch before it wrote.  The one order within a launch is that of the ticket in
`rescore_fwd_kernel`: a program stores, meets its own threads at a barrier, and draws a ticket with acquire-release;
who draws the last one has thereby acquired what all others released.  Nobody waits, so it does not matter how many
programs run at once, and nothing can deadlock.
"""

from __future__ import annotations

import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]

# What `flags` and `status` of a state are made of.  Read by `triton_step`.
STATES = 1
"""NaN or infinity in the state."""
OVERFLOW = 2
"""The best logit is not finite in the dtype of the logits, or the state is too large for these sums."""
WINDOW = 4
"""More rows than the limit might win."""
DRIFT = 8
"""A live logit that the code of its row cannot explain."""

BUCKETS = 2048
"""Of the histogram of a state: 64 for each doubling, from 2^-9 to 2^7, on both sides of 0."""

_STATES = tl.constexpr(STATES)
_OVERFLOW = tl.constexpr(OVERFLOW)
_WINDOW = tl.constexpr(WINDOW)
_DRIFT = tl.constexpr(DRIFT)
_BUCKETS = tl.constexpr(BUCKETS)
_STEPS = tl.constexpr(4.0)  # `after.STEPS`
_LOWEST = tl.constexpr(118 * 64)  # 2^-9 as the upper bits of a float: (127 - 9) << 23 >> 17
_INFINITY = tl.constexpr(float("inf"))
_LARGEST = tl.constexpr(2.0**64)  # of a state: beyond, sums of squares come near the end of float32


@triton.jit
def _bucket(x):
    """A bucket that never falls as x rises, in 0..BUCKETS - 1 even for NaN: the upper bits of a float, cut off."""
    middle: tl.constexpr = _BUCKETS // 2
    size = tl.abs(x).to(tl.int32, bitcast=True) >> 17
    size = tl.minimum(tl.maximum(size - _LOWEST, 0), middle - 1)
    return tl.where(x < 0, middle - 1 - size, middle + size)


@triton.jit
def transform_fwd_kernel(
    states,  # (n, d) of any float dtype
    states_stride,
    matrix,  # (d, d) bfloat16: T
    mean,  # (d,) float32
    number,  # (1,) int32: n
    queries,  # (N, parts, half) float16, out: g, as `scan_fwd_kernel` wants it; zero where there is no coordinate
    partials,  # (4, programs, N) float32, out: over the columns of a program g^2, (g - fp16 g)^2, h mean, (h 2^-x)^2
    grow,  # (N,) float32, out: 2^x
    flags,  # (2, N) int32, out: zero, and why a state is refused
    histogram,  # (N, BUCKETS) int32, out: zero
    tickets,  # (N,) int32, out: zero
    best,  # (N,) float32, out: -inf
    count,  # (N,) int32, out: zero
    down,  # D
    width,
    row_bytes,
    half,  # numbers of one part in `queries`
    BITS: tl.constexpr,
    N: tl.constexpr,
    S: tl.constexpr,  # states of a program
    BK: tl.constexpr,
    BN: tl.constexpr,
    ZERO: tl.constexpr,
):
    """One program for a few columns of T and a few states: g, what a scan must know of it, and zeros.

    On the cores and not on tensor cores: with few states there is little to multiply, and float32 is exact enough.
    """
    program = tl.program_id(0)
    programs = tl.num_programs(0)
    n = tl.load(number)
    state = tl.program_id(1) * S + tl.arange(0, S)  # [S]
    exists = state < n
    column = program * BN + tl.arange(0, BN)  # [BN]
    inside = column < width
    wide = state.to(tl.int64)
    products = tl.zeros((S, BK, BN), dtype=tl.float32)
    sizes = tl.zeros((S, BK), dtype=tl.float32)
    for start in range(0, width, BK):
        row = start + tl.arange(0, BK)  # [BK]
        h = tl.load(
            states + wide[:, None] * states_stride + row[None, :],
            mask=exists[:, None] & (row < width)[None, :],
            other=0.0,
        ).to(tl.float32)
        # Comparisons with NaN are false, so NaN is turned into infinity before the maximum.
        size = tl.where(tl.abs(h) < _INFINITY, tl.abs(h), _INFINITY)
        sizes = tl.maximum(sizes, size)
        h = tl.where(size < _INFINITY, h, 0.0)
        t = tl.load(
            matrix + row.to(tl.int64)[:, None] * width + column[None, :],
            mask=(row < width)[:, None] & inside[None, :],
            other=0.0,
        ).to(tl.float32)
        products += h[:, :, None] * t[None, :, :]
    total = tl.sum(products, axis=1)  # [S, BN]
    largest = tl.max(sizes, axis=1)

    # 2^x from the bits of the largest; the ends are kept where 2^-x is a float32, too.
    exponent = tl.minimum(tl.maximum((largest.to(tl.int32, bitcast=True) >> 23) - 127, -100), 100)
    shrink = ((127 - exponent) << 23).to(tl.float32, bitcast=True)
    g = total * shrink[:, None] * down
    rounded = g.to(tl.float16)
    lost = g - rounded.to(tl.float32)

    # Coordinate s row_bytes + 4 l + 2 w + j goes to part 2 s + j, place 2 l + w: the halves of a word lie beside
    # each other.  The padding of `queries` is never written: it is zero from the start.
    segment = column // row_bytes
    byte = column % row_bytes
    place = (2 * segment + byte % 2) * half + byte // 2
    parts: tl.constexpr = 16 // BITS
    tl.store(
        queries + wide[:, None] * (parts * half) + place[None, :],
        rounded,
        mask=exists[:, None] & inside[None, :],
    )
    mine = tl.load(
        states + wide[:, None] * states_stride + column[None, :], mask=exists[:, None] & inside[None, :], other=0.0
    ).to(tl.float32)
    mine = tl.where(tl.abs(mine) < _INFINITY, mine, 0.0)
    centre = tl.load(mean + column, mask=inside, other=0.0)
    slot = program * N + state
    step = programs * N
    tl.store(partials + slot, tl.sum(g * g, axis=1), mask=exists)
    tl.store(partials + step + slot, tl.sum(lost * lost, axis=1), mask=exists)
    tl.store(partials + 2 * step + slot, tl.sum(mine * centre[None, :], axis=1), mask=exists)
    mine = mine * shrink[:, None]
    tl.store(partials + 3 * step + slot, tl.sum(mine * mine, axis=1), mask=exists)

    buckets = tl.num_programs(1) * S * _BUCKETS
    flat = tl.program_id(1) * programs + program
    for start in range(flat * ZERO, buckets, programs * tl.num_programs(1) * ZERO):
        bucket = start + tl.arange(0, ZERO)
        tl.store(histogram + bucket, tl.zeros((ZERO,), dtype=tl.int32), mask=bucket < buckets)
    if program == 0:
        none = tl.zeros((S,), dtype=tl.int32)
        huge = tl.where(largest > _LARGEST, _OVERFLOW, 0)
        tl.store(flags + state, none)
        tl.store(flags + N + state, tl.where(largest < _INFINITY, huge, _STATES))
        tl.store(grow + state, ((127 + exponent) << 23).to(tl.float32, bitcast=True))
        tl.store(tickets + state, none)
        tl.store(count + state, none)
        tl.store(best + state, tl.full((S,), -_INFINITY, dtype=tl.float32))


@triton.jit
def _levels(words, PART: tl.constexpr, BITS: tl.constexpr, ROWS: tl.constexpr, LANES: tl.constexpr):
    """The levels u / 2^b of one code in each half of each word, float16 `[ROWS, 2 LANES]`, exact.

    The code is moved to the top of a float16's fraction, which with the exponent of 1 reads 1 + c / 2^b, for both
    halves of a word at once; then what is in the middle is taken off.  Words and constants alone, so that the compiler
    moves packed words, and not levels, to where tensor cores take them from.
    """
    position: tl.constexpr = 8 * (PART % 2) + BITS * (PART // 2)
    shift: tl.constexpr = 10 - BITS - position
    single: tl.constexpr = ((1 << BITS) - 1) << (10 - BITS)
    both: tl.constexpr = single | (single << 16)
    middle: tl.constexpr = 1.0 + (2**BITS - 1) / 2 ** (BITS + 1)
    moved = words << shift if shift >= 0 else words >> -shift
    moved = (moved & both) | 0x3C003C00
    low = moved.to(tl.int16).to(tl.float16, bitcast=True)
    high = (moved >> 16).to(tl.int16).to(tl.float16, bitcast=True)
    return tl.reshape(tl.join(low, high), (ROWS, 2 * LANES)) - middle


def _fits(arguments):
    return arguments["lanes"] % arguments["LANES"] == 0


# Interpreted, there is nothing to time.  `queries` is padded for the largest LANES.
_CONFIGS = [
    triton.Config({"BLOCKS": blocks, "LANES": lanes}, num_warps=warps, num_stages=stages)
    for blocks, lanes, warps, stages in (
        (2, 32, 4, 3),
        (2, 32, 4, 2),
        (1, 32, 4, 3),
        (1, 32, 4, 2),
        (2, 16, 4, 3),
        (4, 32, 8, 3),
        (4, 16, 8, 2),
        (1, 16, 4, 2),
    )
]
LANES = 32


@triton.autotune(
    _CONFIGS[:1] if triton.knobs.runtime.interpret else _CONFIGS,
    key=["vocabulary", "width", "N"],
    reset_to_zero=["histogram"],
)
@triton.heuristics({"EVEN": _fits})
@triton.jit
def scan_fwd_kernel(
    codes,  # (blocks, row_bytes / 4, 64) int32: four bytes of a row in a word
    scale,  # (64 blocks,) float16
    number,  # (1,) int32: n
    queries,  # (N, parts, half) float16
    partials,  # (4, programs of the transform, N) float32
    grow,  # (N,) float32
    estimates,  # (n, V) float32, out: e
    histogram,  # (N, BUCKETS) int32, added to: of the best of each GROUP rows
    constants,  # (4, N) float32, out: base, 1 / usual spread, |h'|, slack
    step,  # unit 2^b / D
    shorter,  # 1 / D, and a little more for what is lost in lengths
    of_state,  # slack for each |h|
    of_transformed,  # slack for each |h'|
    of_lost,  # |q_i| at most
    spread,  # of the estimates, for each |h'|
    smallest,  # slack of a state of zeros
    vocabulary,
    width,  # noqa: ARG001  # read by the tuner alone
    blocks,
    lanes,  # row_bytes / 4
    half,
    programs,  # of the transform
    BITS: tl.constexpr,
    N: tl.constexpr,
    PARTIALS: tl.constexpr,
    GROUP: tl.constexpr,
    EVEN: tl.constexpr,  # lanes is a multiple of LANES
    BLOCKS: tl.constexpr,
    LANES: tl.constexpr,
):
    """One program for a few blocks of 64 rows and all states."""
    program = tl.program_id(0)
    n = tl.load(number)
    rows: tl.constexpr = 64 * BLOCKS
    parts: tl.constexpr = 16 // BITS
    local = tl.arange(0, rows)  # [rows]
    block = program * BLOCKS + local // 64
    state = tl.arange(0, N)  # [N]
    exists = state < n
    wide = state.to(tl.int64)
    source = codes + block.to(tl.int64) * lanes * 64 + local % 64
    readable = block < blocks
    lane = tl.arange(0, LANES)
    place = tl.arange(0, 2 * LANES)
    total = tl.zeros((rows, N), dtype=tl.float32)
    for start in range(0, lanes, LANES):
        mask = readable[:, None]
        if not EVEN:
            mask = mask & ((start + lane) < lanes)[None, :]
        words = tl.load(source[:, None] + (start + lane)[None, :] * 64, mask=mask, other=0)  # [rows, LANES]
        for part in tl.static_range(parts):
            query = tl.load(
                queries + wide[None, :] * (parts * half) + part * half + 2 * start + place[:, None],
                mask=exists[None, :],
                other=0.0,
            )  # [2 LANES, N]
            total = tl.dot(_levels(words, part, BITS, rows, LANES), query, total)

    every = tl.arange(0, PARTIALS)
    slot = every[:, None] * N + state[None, :]
    some = (every < programs)[:, None] & exists[None, :]
    size = programs * N
    larger = tl.load(grow + state, mask=exists, other=1.0)
    length = tl.sqrt(tl.sum(tl.load(partials + slot, mask=some, other=0.0), axis=0)) * shorter * larger
    lost = tl.sqrt(tl.sum(tl.load(partials + size + slot, mask=some, other=0.0), axis=0)) * shorter * larger
    base = tl.sum(tl.load(partials + 2 * size + slot, mask=some, other=0.0), axis=0)
    long = tl.sqrt(tl.sum(tl.load(partials + 3 * size + slot, mask=some, other=0.0), axis=0)) * larger
    inverse = 1.0 / tl.maximum(length * spread, 1e-30)
    if program == 0:
        slack = of_state * long + of_transformed * length + of_lost * lost + smallest
        tl.store(constants + state, base, mask=exists)
        tl.store(constants + N + state, inverse, mask=exists)
        tl.store(constants + 2 * N + state, length, mask=exists)
        tl.store(constants + 3 * N + state, slack, mask=exists)

    row = program * rows + local
    real = row < vocabulary
    factor = tl.load(scale + row, mask=real, other=0.0).to(tl.float32) * step
    e = total * factor[:, None] * larger[None, :] + base[None, :]
    # Not finite only where the state is given up; a histogram of NaN is as good as any then.
    tl.store(estimates + wide[None, :] * vocabulary + row[:, None], e, mask=real[:, None] & exists[None, :])
    highest = tl.max(tl.reshape(tl.where(real[:, None], e, -_INFINITY), (rows // GROUP, GROUP, N)), axis=1)
    first = program * rows + tl.arange(0, rows // GROUP) * GROUP
    found = _bucket((highest - base[None, :]) * inverse[None, :])
    tl.atomic_add(
        histogram + state[None, :] * _BUCKETS + found,
        1,
        mask=(first < vocabulary)[:, None] & exists[None, :],
        sem="relaxed",
    )


@triton.jit
def _exact(weight, weight_stride, states, ids, some, width, GATHER: tl.constexpr, BD: tl.constexpr):
    """w_i . h in float32 of a few rows, `[GATHER]`."""
    total = tl.zeros((GATHER, BD), dtype=tl.float32)
    rows = weight + ids.to(tl.int64) * weight_stride
    for start in range(0, width, BD):
        column = start + tl.arange(0, BD)
        inside = column < width
        w = tl.load(rows[:, None] + column[None, :], mask=some[:, None] & inside[None, :], other=0.0).to(tl.float32)
        h = tl.load(states + column, mask=inside, other=0.0).to(tl.float32)
        total += w * h[None, :]
    return tl.sum(total, axis=1)


@triton.jit
def _rescore(
    weight,
    weight_stride,
    states,
    estimates,
    residual,
    out,
    start,
    chosen,
    length,
    slack,
    width,
    ROWS: tl.constexpr,
    GATHER: tl.constexpr,
    BD: tl.constexpr,
):
    """Write the exact logits of the chosen rows of `start`...: the best of them, how many, and what is wrong.

    A few rows are loaded at once, so that loads of one row do not wait for those before.
    """
    local = tl.arange(0, ROWS)
    rank = tl.cumsum(chosen.to(tl.int32), axis=0) - 1
    many = tl.sum(chosen.to(tl.int32), axis=0)
    best = -_INFINITY
    wrong = 0
    for begin in range(0, many, GATHER):
        turn = begin + tl.arange(0, GATHER)
        some = turn < many
        # [GATHER, ROWS]: the row whose turn it is
        ids = start + tl.sum(tl.where((rank[None, :] == turn[:, None]) & chosen[None, :], local[None, :], 0), axis=1)
        exact = _exact(weight, weight_stride, states, ids, some, width, GATHER, BD)
        e = tl.load(estimates + ids, mask=some, other=0.0)
        allowed = length * tl.load(residual + ids, mask=some, other=0.0).to(tl.float32) + slack
        kept = exact.to(out.dtype.element_ty)
        tl.store(out + ids, kept, mask=some)
        value = kept.to(tl.float32)
        fine = value < _INFINITY  # false for NaN, too
        far = tl.abs(exact - e) > allowed
        wrong = wrong | tl.max(tl.where(some & (fine == 0), _OVERFLOW, 0), axis=0)
        wrong = wrong | tl.max(tl.where(some & far, _DRIFT, 0), axis=0)
        best = tl.maximum(best, tl.max(tl.where(some & fine, value, -_INFINITY), axis=0))
    return best, many, wrong


@triton.jit
def _floor(top, cap, EPSILON: tl.constexpr, TINY: tl.constexpr, CAP: tl.constexpr):
    """The least that a logit may be and still come to equal `top`: top - `After.margin`."""
    wide = top.to(tl.float64)
    steps = _STEPS * tl.maximum(tl.abs(wide) * EPSILON, TINY)
    if CAP:
        flat = 1.0 - 2.0 / (tl.exp(2.0 * wide / cap) + 1.0)
        lower = flat - _STEPS * tl.maximum(tl.abs(flat) * EPSILON, TINY)
        # What float64 loses in these few operations is less than 2^-46 of the cap.
        shrunk = tl.maximum(lower, -1.0)
        floor = 0.5 * cap * tl.log((1.0 + shrunk) / (1.0 - shrunk)) - steps - cap * 1.4210854715202004e-14
        floor = tl.where(lower > -1.0, floor, -_INFINITY)
    else:
        floor = wide - steps
    return floor


@triton.jit
def rescore_fwd_kernel(
    states,  # (n, d) of any float dtype
    states_stride,
    weight,  # (rows, d): the live weight
    weight_stride,
    residual,  # (64 blocks,) float16
    number,  # (1,) int32: n
    estimates,  # (n, V) float32
    histogram,  # (N, BUCKETS) int32
    constants,  # (4, N) float32
    out,  # (n, rows) in the dtype of the logits, out
    out_stride,
    highest,  # (N, tiles) float32: how high the rows of a tile may come that were not rescored
    flags,  # (2, N) int32: what is wrong, and why a state is refused, which no program of this launch writes
    tickets,  # (N,) int32
    best,  # (N,) float32
    count,  # (N,) int32: rows that were rescored
    status,  # (N,) int32, out
    rescored,  # (N,) int32, out
    clipped,  # (N,) int32, out
    share,  # the window as a share of the rigorous bound, times unit; anything where there is none
    possible,  # where no exact logit is believed, times unit
    cap,
    vocabulary,
    width,
    wanted,  # R
    limit,
    late_limit,  # rows that the last program may rescore by itself
    tiles,
    N: tl.constexpr,
    WINDOWED: tl.constexpr,
    OUTSIDE: tl.constexpr,  # estimates are written; else -inf
    CAP: tl.constexpr,
    EPSILON: tl.constexpr,  # of the dtype of the logits
    TINY: tl.constexpr,
    ROWS: tl.constexpr,
    GATHER: tl.constexpr,
    BD: tl.constexpr,
    TILES: tl.constexpr,
):
    """A few programs for each state, each for some of the tiles of rows.

    Stage 1, all programs of a state: rescore the rows in the buckets of the R best, write estimates for the others, and
    keep how high those might come.  Stage 2, only the last of them to be done: the best exact logit is known, so rows
    that the window lets in as well are rescored, or estimates above it are lowered.  Mostly there are none.
    """
    own = tl.program_id(0)
    programs = tl.num_programs(0)
    state = tl.program_id(1)
    n = tl.load(number)
    wide = state.to(tl.int64)
    local = tl.arange(0, ROWS)
    mine = states + wide * states_stride
    guesses = estimates + wide * vocabulary
    answers = out + wide * out_stride
    if state < n:
        early = tl.load(flags + N + state)
        slots = tl.arange(0, _BUCKETS)
        above = tl.cumsum(tl.load(histogram + state * _BUCKETS + slots), axis=0, reverse=True)
        threshold = tl.max(tl.where(above >= wanted, slots, 0), axis=0)
        groups = tl.sum(tl.where(slots == threshold, above, 0), axis=0)
        early = early | tl.where(groups > limit, _WINDOW, 0)
        base = tl.load(constants + state)
        inverse = tl.load(constants + N + state)
        length = tl.load(constants + 2 * N + state)
        slack = tl.load(constants + 3 * N + state)
        # Sums inside the scan are never larger than this times what they come to.
        early = early | tl.where((length + slack) * 1e9 < _INFINITY, 0, _OVERFLOW)
        if early != 0:  # every program of the state finds the same
            if own == 0:
                tl.store(status + state, early)
                tl.store(rescored + state, 0)
                tl.store(clipped + state, 0)
        else:
            top = -_INFINITY
            many = 0
            wrong = 0
            for tile in range(own, tiles, programs):
                row = tile * ROWS + local
                real = row < vocabulary
                e = tl.load(guesses + row, mask=real, other=0.0)
                chosen = real & (_bucket((e - base) * inverse) >= threshold)
                rest = real & (chosen == 0)
                if OUTSIDE:
                    tl.store(answers + row, e.to(out.dtype.element_ty), mask=rest)
                else:
                    tl.store(
                        answers + row,
                        tl.full((ROWS,), -_INFINITY, dtype=tl.float32).to(out.dtype.element_ty),
                        mask=rest,
                    )
                if WINDOWED:
                    r = tl.load(residual + row, mask=real, other=0.0).to(tl.float32)
                    reach = e + (length * share) * r + slack
                else:
                    reach = e
                tl.store(highest + wide * tiles + tile, tl.max(tl.where(rest, reach, -_INFINITY), axis=0))
                found, some, bad = _rescore(
                    weight, weight_stride, mine, guesses, residual, answers, tile * ROWS, chosen,
                    length * possible, slack, width, ROWS, GATHER, BD,
                )  # fmt: skip
                top = tl.maximum(top, found)
                many += some
                wrong = wrong | bad
            tl.atomic_max(best + state, top, sem="relaxed")
            tl.atomic_add(count + state, many, sem="relaxed")
            tl.atomic_or(flags + state, wrong, sem="relaxed")
            tl.debug_barrier()  # all threads have stored before one of them releases
            ticket = tl.atomic_add(tickets + state, 1, sem="acq_rel")
            if ticket == programs - 1:
                top = tl.load(best + state)
                many = tl.load(count + state)
                wrong = tl.load(flags + state)
                wrong = wrong | tl.where(tl.abs(top) < _INFINITY, 0, _OVERFLOW)
                wrong = wrong | tl.where(many > limit, _WINDOW, 0)
                floor = _floor(top, cap, EPSILON, TINY, CAP)
                ceiling = floor.to(tl.float32).to(out.dtype.element_ty).to(tl.float32)
                line = floor.to(tl.float32)
                if not WINDOWED:
                    line = ceiling
                lowered = 0
                extra = 0
                if WINDOWED or OUTSIDE:
                    for first in range(0, tiles, TILES):
                        slot = first + tl.arange(0, TILES)
                        peak = tl.load(highest + wide * tiles + slot, mask=slot < tiles, other=-_INFINITY)
                        reached = peak >= line if WINDOWED else peak > line
                        open_ = reached & (slot < tiles)
                        place = tl.min(tl.where(open_, slot, tiles), axis=0)
                        while (place < tiles) & (wrong == 0):
                            row = place * ROWS + local
                            real = row < vocabulary
                            e = tl.load(guesses + row, mask=real, other=0.0)
                            rest = real & (_bucket((e - base) * inverse) < threshold)
                            if WINDOWED:
                                r = tl.load(residual + row, mask=real, other=0.0).to(tl.float32)
                                chosen = rest & (e + (length * share) * r + slack >= line)
                                extra += tl.sum(chosen.to(tl.int32), axis=0)
                                wrong = tl.where((many + extra > limit) | (extra > late_limit), _WINDOW, 0)
                                found, some, bad = _rescore(
                                    weight, weight_stride, mine, guesses, residual, answers, place * ROWS,
                                    chosen & (wrong == 0),
                                    length * possible, slack, width, ROWS, GATHER, BD,
                                )  # fmt: skip
                                wrong = wrong | bad
                            else:
                                high = rest & (e > line)
                                lowered += tl.sum(high.to(tl.int32), axis=0)
                                least = tl.zeros((ROWS,), dtype=tl.float32) + ceiling
                                tl.store(answers + row, least.to(out.dtype.element_ty), mask=high)
                            place = tl.min(tl.where(open_ & (slot > place), slot, tiles), axis=0)
                tl.store(status + state, wrong)
                tl.store(rescored + state, many + extra)
                tl.store(clipped + state, lowered)
