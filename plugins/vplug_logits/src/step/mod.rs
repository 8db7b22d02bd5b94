//! One step: hidden states in, the logits of the whole vocabulary out, exact where a row can win.
//!
//! It answers what `vplug_logits/{rounds,greedy}.py` answer for one process alone, in the same order: estimate, rescore
//! the best R, place the window at the best exact logit, rescore what it holds, write. Each state is answered by itself,
//! whatever stands beside it; one that cannot be is given back with the reason, for the host to answer densely.

mod data;
mod passes;
mod work;
mod write;

use std::sync::Mutex;
use std::time::Instant;

use half::f16;

use crate::after::Kind;
use crate::isa::Isa;
use crate::select::{self, Window};
use crate::transform::{dot, transform, transform_wide};
use crate::weight::Weight;
use crate::{pages, pool};
pub use data::{Done, Out, Outcome, Rules, Sketch, Times};
use passes::Pairs;
pub use passes::{rescore_all, scan_all};
pub use work::Workspace;
use work::{Each, inner, lock};

/// Sums of float32 inside a scan are never larger than this times what they come to.
const ROOM: f64 = 1e9;
/// What float32 loses of numbers near its smallest one, for each coordinate: `vplug_logits/estimates.py` says why.
const SMALLEST: f64 = 1.0 / (1_u128 << 111) as f64;
/// Bytes of codes and of T below which a step stays on one thread: waking another costs more.
const SMALL: usize = 1 << 20;
/// Columns that one task transforms.
const COLUMNS: usize = 256;

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
        let estimates_of = |state| view(state).0;
        self.believe_all(&mut each[..many], estimates_of, |_| 0);
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
            self.believe_all(&mut each[..many], estimates_of, |one| one.done.rescored);
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
            let size = COLUMNS * many;
            pool::over(&mut work.columns, size, size, threads, |task, out| {
                turn(isa, sketch.matrix, width, states, columns(task), out);
            });
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
            one.slack = lost * (rules.of_state * dot(h, h).sqrt() + rules.of_transformed * one.length)
                + SMALLEST * width as f64 * (1.0 + rules.of_transformed);
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

    /// Takes the exact logits that are new. Weights that changed under one state changed under all.
    ///
    /// # Parameters
    ///
    /// `first`: how many of the rows of a state are not new.
    fn believe_all<'a>(
        &self,
        each: &mut [Mutex<Each>],
        estimates_of: impl Fn(usize) -> &'a [f32],
        first: impl Fn(&Each) -> usize,
    ) {
        let mut drift = false;
        for (state, one) in each.iter_mut().enumerate() {
            let one = inner(one);
            if one.fine() {
                let first = first(one);
                drift |= self.believe(one, estimates_of(state), first);
            }
        }
        for one in each {
            let one = inner(one);
            if drift {
                one.lose(Outcome::Drift);
            } else if one.fine() && !one.top.is_finite() {
                one.lose(Outcome::Overflow);
            }
        }
    }

    /// Takes the exact logits from `first` on: the best of them, NaN where one is; and whether there is one that its code
    /// cannot explain.
    fn believe(&self, one: &mut Each, estimates: &[f32], first: usize) -> bool {
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
        }
        one.top = top;
        one.done.rescored = one.ids.len();
        drift
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
}
