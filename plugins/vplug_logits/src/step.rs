//! One step: hidden states in, the logits of the whole vocabulary out, exact where a row can win.
//!
//! It answers what `vplug_logits/{rounds,greedy}.py` answer for one process alone, in the same order: estimate, rescore
//! the best R, place the window at the best exact logit, rescore what it holds, write. Each state is answered by itself,
//! whatever stands beside it; one that cannot be is given back with the reason, for the host to answer densely.
#![expect(
    clippy::inline_always,
    reason = "what is inlined is compiled for the instructions of its caller"
)]
#![expect(unsafe_code, reason = "tasks write different columns of one matrix")]

use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use crate::after::{After, Kind};
use crate::isa::{Isa, compiled_for};
use crate::layout::{BLOCK, GROUPS, SUPER, Shape};
use crate::query::Queries;
use crate::rescore::rescore;
use crate::scan::{Rows, Scan};
use crate::select::{self, Scratch, Window};
use crate::transform::{transform, transform_wide};
use crate::weight::Weight;
use crate::{pages, pool};

/// Sums of float32 inside a scan are never larger than this times what they come to.
const ROOM: f64 = 1e9;
/// Bytes of codes that one task scans.
const TASK: usize = 96 << 10;
/// Bytes of codes and of T below which a step stays on one thread: waking another costs more.
const SMALL: usize = 1 << 20;
/// Pairs that one task rescores, and columns that one transforms.
const PAIRS: usize = 64;
const COLUMNS: usize = 256;

/// A sketch, borrowed; lengths are checked by `Sketch::checked`.
#[derive(Clone, Copy, Debug)]
pub struct Sketch<'a> {
    /// V, d and b.
    pub shape: Shape,
    /// Codes, in the layout of `layout`.
    pub codes: &'a [u8],
    /// One for each padded row, in multiples of `unit`.
    pub scale: &'a [f16],
    /// One for each padded row, in multiples of `unit`: never less than the distance of the row from its code.
    pub residual: &'a [f16],
    /// Of what `scale` and `residual` are multiples.
    pub unit: f64,
    /// T, `(d, d)`.
    pub matrix: &'a [bf16],
    /// The mean row.
    pub mean: &'a [f32],
}

impl<'a> Sketch<'a> {
    /// A scan of queries.
    ///
    /// # Parameters
    ///
    /// `factor`: 0.5 unit step, one for each state; `base`: what is added to each estimate of a state.
    pub fn scan<'b>(&'b self, queries: &'b Queries, factor: &'b [f32], base: &'b [f32]) -> Scan<'b>
    where
        'a: 'b,
    {
        Scan {
            shape: self.shape,
            codes: self.codes,
            scale: self.scale,
            words: queries.words(),
            sums: queries.sums(),
            states: queries.states(),
            planes: queries.planes(),
            factor,
            base,
        }
    }

    /// Whether everything is as long as the shape says.
    pub const fn fits(&self) -> bool {
        let (rows, width) = (self.shape.padded_rows(), self.shape.width());
        self.codes.len() == self.shape.code_bytes()
            && self.scale.len() == rows
            && self.residual.len() == rows
            && self.matrix.len() == width * width
            && self.mean.len() == width
    }
}

/// What a mode asks for.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// R: rows that are rescored first.
    pub rows: usize,
    /// Rows of a state that are rescored at most.
    pub limit: usize,
    /// The window, as a share of the bound that always holds; none: only the best R are rescored.
    pub share: Option<f64>,
    /// The share of that bound beyond which no exact logit is believed.
    pub possible: f64,
    /// Twice the length of the longest row, and of the longest code: what float32 loses grows with them.
    pub of_state: f64,
    /// See `of_state`.
    pub of_transformed: f64,
    /// Rounding.
    pub after: After,
    /// Whether rows that were not rescored have their estimate, or minus infinity.
    pub estimates: bool,
}

/// Where the logits go: `(n, stride)`, of which the first V columns are written.
pub enum Out<'a> {
    /// float32.
    Single(&'a mut [f32]),
    /// bfloat16.
    Brain(&'a mut [bf16]),
    /// float16.
    Half(&'a mut [f16]),
}

impl Out<'_> {
    /// The type of its numbers.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Single(_) => Kind::Single,
            Self::Brain(_) => Kind::Brain,
            Self::Half(_) => Kind::Half,
        }
    }

    /// How many numbers there are.
    pub const fn len(&self) -> usize {
        match self {
            Self::Single(numbers) => numbers.len(),
            Self::Brain(numbers) => numbers.len(),
            Self::Half(numbers) => numbers.len(),
        }
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// How a state was answered; the numbers are the binding's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Outcome {
    /// Its logits are written.
    #[default]
    Fine = 0,
    /// It holds NaN or infinity.
    States = 1,
    /// A number went out of range.
    Overflow = 2,
    /// The window held more rows than the limit.
    Window = 3,
    /// A live logit is one that its code cannot explain.
    Drift = 4,
}

/// What was done for one state.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// How it was answered.
    pub outcome: Outcome,
    /// Rows that were rescored.
    pub rescored: usize,
    /// Estimates that were lowered, since they reached the winner.
    pub clipped: usize,
}

/// How long it took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// Exact logits of selected rows.
    pub rescore: Duration,
    /// The whole step.
    pub whole: Duration,
}

/// One head.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// What is scanned.
    pub sketch: Sketch<'a>,
    /// `select::widest` of its residuals.
    pub widest: &'a [f32],
    /// The live weight, with at least V rows of d.
    pub weight: Weight<'a>,
    /// What is asked for.
    pub rules: Rules,
}

/// What a step works in; reused, so that steps of one size allocate nothing.
#[derive(Default)]
pub struct Workspace {
    states: Vec<f32>,
    columns: Vec<f32>,
    transformed: Vec<f32>,
    queries: Queries,
    factor: Vec<f32>,
    base: Vec<f32>,
    estimates: Vec<f32>,
    maxima: Vec<f32>,
    each: Vec<Mutex<Each>>,
    rows: Vec<u32>,
    owners: Vec<u32>,
    exact: Vec<f32>,
}

/// One state on its way.
#[derive(Default)]
struct Each {
    done: Done,
    length: f64,
    lost: f64,
    slack: f64,
    /// Rows with at least this estimate were rescored first.
    last: f32,
    /// The best exact logit, rounded.
    top: f32,
    ids: Vec<u32>,
    exact: Vec<f32>,
    scratch: Scratch,
}

impl Each {
    fn fine(&self) -> bool {
        self.done.outcome == Outcome::Fine
    }

    fn reset(&mut self) {
        self.done = Done::default();
        self.last = f32::NEG_INFINITY;
        self.ids.clear();
        self.exact.clear();
    }

    fn lose(&mut self, outcome: Outcome) {
        if self.fine() {
            self.done.outcome = outcome;
        }
    }
}

impl Head<'_> {
    /// Answers states.
    ///
    /// # Parameters
    ///
    /// `states`: `(n, d)`; `out`: `(n, stride)`, stride >= V; `lost`: the share of |a| |b| by which sums of products in
    /// float32 may be wrong, here and in the dense head; `done`: one for each state.
    ///
    /// # Panics
    ///
    /// Something is not as long as its shape says.
    #[expect(clippy::too_many_arguments, reason = "a step is asked once, from the binding")]
    pub fn step(
        &self,
        isa: Isa,
        threads: usize,
        lost: f64,
        states: &[f32],
        mut out: Out<'_>,
        stride: usize,
        work: &mut Workspace,
        done: &mut [Done],
    ) -> Times {
        let begun = Instant::now();
        let (shape, many) = (self.sketch.shape, done.len());
        let (vocabulary, width) = (shape.vocabulary(), shape.width());
        assert!(self.sketch.fits() && self.widest.len() == shape.supers());
        assert!(self.weight.width() == width && self.weight.rows() >= vocabulary && stride >= vocabulary);
        assert!(states.len() == many * width && out.len() == many * stride);
        if many == 0 {
            return Times::default();
        }
        let threads = if shape.code_bytes() + self.sketch.matrix.len() * 2 < SMALL {
            1
        } else {
            threads
        };
        let mut times = Times::default();
        match &mut out {
            Out::Single(numbers) => pages::advise(numbers),
            Out::Brain(numbers) => pages::advise(numbers),
            Out::Half(numbers) => pages::advise(numbers),
        }
        work.begin(&shape, many, out.kind() != Kind::Single);
        self.admit(states, work);
        self.estimate(isa, threads, lost, many, work);

        // float32 logits are their own estimates until they are written over
        let Workspace {
            queries,
            factor,
            base,
            estimates,
            maxima,
            each,
            rows,
            owners,
            exact,
            states,
            ..
        } = work;
        let (targets, pitch): (&mut [f32], usize) = match &mut out {
            Out::Single(numbers) => (numbers, stride),
            _ => (estimates, vocabulary),
        };
        let scan = self.sketch.scan(queries, factor, base);
        scan_all(&scan, isa, threads, targets, pitch, maxima);

        let tops = shape.groups();
        let view = |state: usize| {
            (
                &targets[state * pitch..state * pitch + vocabulary],
                &maxima[state * tops..(state + 1) * tops],
            )
        };
        pool::run(many, threads, &|state| {
            let mut one = lock(&each[state]);
            if one.fine() {
                let (values, maxima) = view(state);
                let Each { scratch, ids, last, .. } = &mut *one;
                *last = select::best(isa, values, maxima, self.rules.rows, scratch, ids);
                if one.ids.len() > self.rules.limit {
                    one.lose(Outcome::Window);
                }
            }
        });
        let mut pairs = Pairs { rows, owners, exact };
        let clock = Instant::now();
        pairs.rescore(isa, threads, &self.weight, states, each);
        times.rescore += clock.elapsed();
        for (state, one) in each.iter_mut().enumerate().take(many) {
            self.believe(inner(one), view(state).0, 0);
        }
        lose_all_on_drift(&mut each[..many]);
        if let Some(share) = self.rules.share {
            pool::run(many, threads, &|state| {
                let mut one = lock(&each[state]);
                if one.fine() {
                    let (values, maxima) = view(state);
                    self.widen(isa, share, values, maxima, &mut one);
                }
            });
            let clock = Instant::now();
            pairs.rescore(isa, threads, &self.weight, states, each);
            times.rescore += clock.elapsed();
            for (state, one) in each.iter_mut().enumerate().take(many) {
                let one = inner(one);
                let first = one.done.rescored;
                self.believe(one, view(state).0, first);
            }
            lose_all_on_drift(&mut each[..many]);
        }
        self.write(isa, threads, &mut out, stride, estimates, maxima, each);
        for (to, from) in done.iter_mut().zip(each) {
            *to = inner(from).done;
        }
        times.whole = begun.elapsed();
        times
    }

    /// Copies the states; those with NaN or infinity are lost, and zero from here on.
    fn admit(&self, states: &[f32], work: &mut Workspace) {
        let width = self.sketch.shape.width();
        work.states.clear();
        work.states.extend_from_slice(states);
        for (state, one) in work.states.chunks_exact_mut(width).zip(&mut work.each) {
            let one = inner(one);
            one.reset();
            if state.iter().any(|number| !number.is_finite()) {
                one.lose(Outcome::States);
                state.fill(0.0);
            }
        }
    }

    /// Everything that a scan of the states needs, and how wrong it may be.
    fn estimate(&self, isa: Isa, threads: usize, lost: f64, many: usize, work: &mut Workspace) {
        let (shape, sketch, rules) = (self.sketch.shape, &self.sketch, &self.rules);
        let width = shape.width();
        let wide = shape.bits().count() == 8;
        let turn = if wide { transform_wide } else { transform };
        if threads == 1 || width * width < SMALL {
            turn(isa, sketch.matrix, width, &work.states, 0..width, &mut work.transformed);
        } else {
            let states = &work.states;
            let columns = |task: usize| task * COLUMNS..((task + 1) * COLUMNS).min(width);
            let part = |task| columns(task).start * many..columns(task).end * many;
            pool::over(
                &mut work.columns,
                width.div_ceil(COLUMNS),
                threads,
                part,
                |task, out| {
                    turn(isa, sketch.matrix, width, states, columns(task), out);
                },
            );
            for first in (0..width).step_by(COLUMNS) {
                let last = (first + COLUMNS).min(width);
                for (state, from) in work.columns[first * many..last * many]
                    .chunks_exact(last - first)
                    .enumerate()
                {
                    work.transformed[state * width + first..state * width + last].copy_from_slice(from);
                }
            }
        }
        work.queries.fill(isa, &shape, &work.transformed, many);
        for state in 0..many {
            let (h, turned) = (
                &work.states[state * width..][..width],
                &work.transformed[state * width..][..width],
            );
            let one = inner(&mut work.each[state]);
            one.length = dot(turned, turned).sqrt();
            one.lost = f64::from(work.queries.lost()[state]);
            one.slack = lost * (rules.of_state * dot(h, h).sqrt() + rules.of_transformed * one.length);
            work.factor[state] = (0.5 * sketch.unit * f64::from(work.queries.steps()[state])) as f32;
            work.base[state] = dot(h, sketch.mean) as f32;
            let largest = (one.length + one.slack) * ROOM;
            if !(largest <= f64::from(f32::MAX) && work.factor[state].is_finite() && work.base[state].is_finite()) {
                one.lose(Outcome::Overflow);
            }
        }
    }

    /// How far a live logit may be from its estimate, in the given share of the bound that always holds.
    fn allowed(&self, one: &Each, share: f64, residual: f16) -> f64 {
        let of_query = one.lost * self.rules.of_transformed / 2.0;
        share * (one.length * self.sketch.unit * f64::from(residual.to_f32()) + of_query) + one.slack
    }

    /// Takes the exact logits from `first` on: the best of them, and whether their codes explain them.
    fn believe(&self, one: &mut Each, estimates: &[f32], first: usize) {
        if !one.fine() {
            return;
        }
        let mut top = if first == 0 { f32::NEG_INFINITY } else { one.top };
        let mut drift = false;
        for (&id, &exact) in one.ids[first..].iter().zip(&one.exact[first..]) {
            let away = (f64::from(exact) - f64::from(estimates[id as usize])).abs();
            drift |= away > self.allowed(one, self.rules.possible, self.sketch.residual[id as usize]);
            let rounded = self.rules.after.kind.rounded(exact);
            top = if rounded > top || rounded.is_nan() {
                rounded
            } else {
                top
            };
            if top.is_nan() {
                break;
            }
        }
        one.top = top;
        one.done.rescored = one.ids.len();
        if drift {
            one.lose(Outcome::Drift);
        }
        if !top.is_finite() {
            one.lose(Outcome::Overflow);
        }
    }

    /// Adds the rows of the window.
    fn widen(&self, isa: Isa, share: f64, estimates: &[f32], maxima: &[f32], one: &mut Each) {
        let top = f64::from(one.top);
        let rule = Window {
            floor: f64::from((top - self.rules.after.margin(top)) as f32),
            slope: share * one.length * self.sketch.unit,
            slack: one.slack + share * one.lost * self.rules.of_transformed / 2.0,
        };
        let room = self.rules.limit - one.ids.len();
        let residual = self.sketch.residual;
        if select::window(
            isa,
            estimates,
            maxima,
            residual,
            self.widest,
            &rule,
            one.last,
            room,
            &mut one.ids,
        ) {
            one.lose(Outcome::Window);
        }
    }

    /// Writes the logits of all states that are not lost.
    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of a workspace that are borrowed already"
    )]
    fn write(
        &self,
        isa: Isa,
        threads: usize,
        out: &mut Out<'_>,
        stride: usize,
        estimates: &mut [f32],
        maxima: &[f32],
        each: &[Mutex<Each>],
    ) {
        let (vocabulary, many) = (self.sketch.shape.vocabulary(), out.len() / stride);
        let threads = if out.len() < SMALL / 4 { 1 } else { threads };
        let row = |state: usize| state * stride..state * stride + vocabulary;
        let of_scratch = |state: usize| state * vocabulary..(state + 1) * vocabulary;
        match out {
            Out::Single(numbers) => pool::over(numbers, many, threads, row, |state, values| {
                let mut one = lock(&each[state]);
                if one.fine() {
                    self.lower(isa, state, values, maxima, &mut one);
                    if !self.rules.estimates {
                        values.fill(f32::NEG_INFINITY);
                    }
                    scatter(&one, values, |exact| exact);
                }
            }),
            Out::Brain(numbers) => {
                self.lower_all(isa, threads, estimates, maxima, each);
                self.rounded(
                    numbers,
                    many,
                    threads,
                    row,
                    each,
                    bf16::NEG_INFINITY,
                    bf16::from_f32,
                    |state, to| {
                        compiled_for(isa, || brain_of(&estimates[of_scratch(state)], to));
                    },
                );
            }
            Out::Half(numbers) => {
                self.lower_all(isa, threads, estimates, maxima, each);
                self.rounded(
                    numbers,
                    many,
                    threads,
                    row,
                    each,
                    f16::NEG_INFINITY,
                    f16::from_f32,
                    |state, to| {
                        to.convert_from_f32_slice(&estimates[of_scratch(state)]);
                    },
                );
            }
        }
    }

    /// Lowers what would reach the winner without having been rescored.
    fn lower(&self, isa: Isa, state: usize, values: &mut [f32], maxima: &[f32], one: &mut Each) {
        if !self.rules.estimates {
            return;
        }
        let groups = self.sketch.shape.groups();
        let top = f64::from(one.top);
        let ceiling = self
            .rules
            .after
            .kind
            .rounded((top - self.rules.after.margin(top)) as f32);
        let high = one.ids.iter().filter(|&&id| values[id as usize] > ceiling).count();
        one.done.clipped = select::clip(isa, values, &maxima[state * groups..][..groups], ceiling) - high;
    }

    fn lower_all(&self, isa: Isa, threads: usize, estimates: &mut [f32], maxima: &[f32], each: &[Mutex<Each>]) {
        let vocabulary = self.sketch.shape.vocabulary();
        let part = |state: usize| state * vocabulary..(state + 1) * vocabulary;
        pool::over(estimates, each.len(), threads, part, |state, values| {
            let mut one = lock(&each[state]);
            if one.fine() {
                self.lower(isa, state, values, maxima, &mut one);
            }
        });
    }

    /// Estimates and exact logits in a type of 16 bits.
    #[expect(clippy::too_many_arguments, reason = "what differs between the two types of 16 bits")]
    fn rounded<T: Copy + Send + Sync>(
        &self,
        numbers: &mut [T],
        many: usize,
        threads: usize,
        row: impl Fn(usize) -> Range<usize> + Sync,
        each: &[Mutex<Each>],
        outside: T,
        of: impl Fn(f32) -> T + Sync,
        estimates: impl Fn(usize, &mut [T]) + Sync,
    ) {
        pool::over(numbers, many, threads, row, |state, to| {
            let one = lock(&each[state]);
            if one.fine() {
                if self.rules.estimates {
                    estimates(state, to);
                } else {
                    to.fill(outside);
                }
                scatter(&one, to, &of);
            }
        });
    }
}

impl Workspace {
    /// Room for `many` states.
    fn begin(&mut self, shape: &Shape, many: usize, apart: bool) {
        let width = shape.width();
        for (buffer, length) in [
            (&mut self.columns, many * width),
            (&mut self.transformed, many * width),
            (&mut self.factor, many),
            (&mut self.base, many),
            (&mut self.estimates, if apart { many * shape.vocabulary() } else { 0 }),
            (&mut self.maxima, many * shape.groups()),
        ] {
            buffer.resize(length, 0.0);
        }
        self.each.resize_with(many, Mutex::default);
    }
}

/// Pairs of rows and states on their way to `rescore`.
struct Pairs<'a> {
    rows: &'a mut Vec<u32>,
    owners: &'a mut Vec<u32>,
    exact: &'a mut Vec<f32>,
}

impl Pairs<'_> {
    /// Exact logits of the ids of each state that have none yet; those of lost states are passed by.
    fn rescore(&mut self, isa: Isa, threads: usize, weight: &Weight<'_>, states: &[f32], each: &mut [Mutex<Each>]) {
        self.rows.clear();
        self.owners.clear();
        for (state, one) in each.iter_mut().enumerate() {
            let one = inner(one);
            if one.fine() {
                self.rows.extend_from_slice(&one.ids[one.exact.len()..]);
                self.owners.resize(self.rows.len(), state as u32);
            }
        }
        self.exact.resize(self.rows.len(), 0.0);
        rescore_all(isa, threads, weight, self.rows, self.owners, states, self.exact);
        let mut rest = &self.exact[..];
        for one in each {
            let one = inner(one);
            if one.fine() {
                let (mine, others) = rest.split_at(one.ids.len() - one.exact.len());
                one.exact.extend_from_slice(mine);
                rest = others;
            }
        }
    }
}

/// Exact logits of all pairs.
pub fn rescore_all(
    isa: Isa,
    threads: usize,
    weight: &Weight<'_>,
    rows: &[u32],
    owners: &[u32],
    states: &[f32],
    exact: &mut [f32],
) {
    let threads = if rows.len() < 2 * PAIRS { 1 } else { threads };
    let size = if threads == 1 { rows.len().max(1) } else { PAIRS };
    let part = |task: usize| task * size..((task + 1) * size).min(rows.len());
    pool::over(exact, rows.len().div_ceil(size), threads, part, |task, out| {
        rescore(isa, weight, &rows[part(task)], &owners[part(task)], states, out);
    });
}

/// Scans all rows.
pub fn scan_all(scan: &Scan<'_>, isa: Isa, threads: usize, estimates: &mut [f32], stride: usize, maxima: &mut [f32]) {
    let supers = scan.shape.supers();
    let each = (TASK / (scan.shape.block_bytes() * (SUPER / BLOCK))).max(1);
    let each = if threads == 1 { supers } else { each };
    let (many, groups) = (scan.states, scan.shape.groups());
    let estimates = Rows::new(estimates, many, scan.shape.vocabulary(), stride);
    let maxima = Rows::new(maxima, many, groups, groups);
    pool::run(supers.div_ceil(each), threads, &|task| {
        let range = task * each..((task + 1) * each).min(supers);
        // SAFETY: ranges of different tasks do not overlap, and each task runs once.
        let mut columns = unsafe { estimates.part(scan.columns(&range)) };
        // SAFETY: as above.
        let mut tops = unsafe { maxima.part(range.start * GROUPS..range.end * GROUPS) };
        scan.run(isa, range, &mut columns, &mut tops);
    });
}

/// Weights that changed under one state changed under all.
fn lose_all_on_drift(each: &mut [Mutex<Each>]) {
    if each.iter_mut().any(|one| inner(one).done.outcome == Outcome::Drift) {
        for one in each {
            inner(one).lose(Outcome::Drift);
        }
    }
}

fn scatter<T: Copy>(one: &Each, to: &mut [T], rounded: impl Fn(f32) -> T) {
    for (&id, &exact) in one.ids.iter().zip(&one.exact) {
        to[id as usize] = rounded(exact);
    }
}

/// Rounds to nearest, ties to even; the numbers are finite.
#[inline(always)]
fn brain_of(from: &[f32], to: &mut [bf16]) {
    for (to, from) in to.iter_mut().zip(from) {
        let bits = from.to_bits();
        *to = bf16::from_bits(((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16);
    }
}

/// A dot product in float64, in eight sums.
fn dot(one: &[f32], other: &[f32]) -> f64 {
    let mut sums = [0.0; 8];
    for (one, other) in one.chunks(8).zip(other.chunks(8)) {
        for ((sum, &one), &other) in sums.iter_mut().zip(one).zip(other) {
            *sum += f64::from(one) * f64::from(other);
        }
    }
    sums.iter().sum()
}

fn lock(one: &Mutex<Each>) -> std::sync::MutexGuard<'_, Each> {
    one.lock().unwrap_or_else(PoisonError::into_inner)
}

fn inner(one: &mut Mutex<Each>) -> &mut Each {
    one.get_mut().unwrap_or_else(PoisonError::into_inner)
}
