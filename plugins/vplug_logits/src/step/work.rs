//! What a step works in, and how far each of its states has come.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::data::{Done, Outcome};
use crate::layout::Shape;
use crate::query::Queries;
use crate::select::Scratch;

/// What a step works in; reused, so that steps of one size allocate nothing.
#[derive(Default)]
pub struct Workspace {
    pub(super) states: Vec<f32>,
    pub(super) columns: Vec<f32>,
    pub(super) transformed: Vec<f32>,
    pub(super) queries: Queries,
    pub(super) factor: Vec<f32>,
    pub(super) base: Vec<f32>,
    pub(super) estimates: Vec<f32>,
    pub(super) maxima: Vec<f32>,
    pub(super) each: Vec<Mutex<Each>>,
    pub(super) rows: Vec<u32>,
    pub(super) owners: Vec<u32>,
    pub(super) exact: Vec<f32>,
}

/// One state on its way.
#[derive(Default)]
pub(super) struct Each {
    pub(super) done: Done,
    pub(super) length: f64,
    pub(super) lost: f64,
    pub(super) slack: f64,
    /// Rows with at least this estimate were rescored first.
    pub(super) last: f32,
    /// The best exact logit, rounded.
    pub(super) top: f32,
    pub(super) ids: Vec<u32>,
    pub(super) exact: Vec<f32>,
    pub(super) scratch: Scratch,
}

impl Each {
    pub(super) fn fine(&self) -> bool {
        self.done.outcome == Outcome::Fine
    }

    pub(super) fn reset(&mut self) {
        self.done = Done::default();
        self.last = f32::NEG_INFINITY;
        self.ids.clear();
        self.exact.clear();
    }

    pub(super) fn lose(&mut self, outcome: Outcome) {
        if self.fine() {
            self.done.outcome = outcome;
        }
    }
}

impl Workspace {
    /// Room for `many` states.
    pub(super) fn begin(&mut self, shape: &Shape, many: usize, apart: bool) {
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

/// A state, for the one task that works on it.
pub(super) fn lock(one: &Mutex<Each>) -> MutexGuard<'_, Each> {
    one.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A state that no other thread has.
pub(super) fn inner(one: &mut Mutex<Each>) -> &mut Each {
    one.get_mut().unwrap_or_else(PoisonError::into_inner)
}
