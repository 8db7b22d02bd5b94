//! What a step is given, and what it gives back.

use std::time::Duration;

use half::{bf16, f16};

use crate::after::{After, Kind};
use crate::layout::Shape;
use crate::query::Queries;
use crate::scan::Scan;

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
