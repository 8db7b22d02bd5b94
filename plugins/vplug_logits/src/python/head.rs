//! A head: a sketch, the live weight, and what a mode asks for.

use std::any::Any;
use std::sync::{Mutex, PoisonError};

use half::{bf16, f16};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::dlpack::{Place, Tensor};
use super::sketch::{Sketch, weight_of};
use crate::after::{After, Kind};
use crate::step::{self, Done, Out, Outcome, Rules, Workspace};

/// Workspaces that are kept for the next step; more are made where more threads come at once.
const KEPT: usize = 4;

/// One head.
///
/// Args:
///     sketch: What is scanned.
///     weight: DLPack capsule of the live weight: float32, bfloat16 or float16 (rows >= V, d), each row in one piece.
///     dtype: "float32", "bfloat16" or "float16": of the logits.
///     rows: R, rows that are rescored first.
///     limit: Rows of a state that are rescored at most.
///     share: Of the window; None: there is none.
///     possible: The share of the bound beyond which no exact logit is believed.
///     of_state: Twice the length of the longest row (and of the mean).
///     of_transformed: Twice the length of the longest code.
///     cap: The host's soft cap, or None.
///     estimates: Whether rows that are not rescored have their estimate, or -inf.
///
/// Raises:
///     TypeError: A weight of another type or on another device.
///     ValueError: Shapes that do not fit.
#[pyclass(frozen, module = "vplug_logits._kernels")]
pub struct Head {
    sketch: Py<Sketch>,
    /// Of the weight, which each step is lent anew: so it is not kept longer than its host keeps it.
    place: Place,
    rules: Rules,
    workspaces: Mutex<Vec<Kept>>,
}

#[pymethods]
impl Head {
    #[new]
    #[pyo3(signature = (
        sketch, weight, *, dtype, rows, limit, share, possible, of_state, of_transformed, cap, estimates,
    ))]
    #[expect(clippy::too_many_arguments, reason = "keywords, each for something else")]
    fn new(
        py: Python<'_>,
        sketch: Py<Sketch>,
        weight: &Bound<'_, PyAny>,
        dtype: &str,
        rows: usize,
        limit: usize,
        share: Option<f64>,
        possible: f64,
        of_state: f64,
        of_transformed: f64,
        cap: Option<f64>,
        estimates: bool,
    ) -> PyResult<Self> {
        let kind = match dtype {
            "float32" => Kind::Single,
            "bfloat16" => Kind::Brain,
            "float16" => Kind::Half,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "dtype: {dtype:?} is none of float32, bfloat16, float16"
                )));
            }
        };
        let weight = Tensor::of(weight, "weight")?;
        let (found, shape) = (weight_of(&weight)?, sketch.borrow(py).shape);
        if found.width() != shape.width() || found.rows() < shape.vocabulary() {
            return Err(PyValueError::new_err(format!(
                "weight: {} x {} is no head of a sketch of {} x {}",
                found.rows(),
                found.width(),
                shape.vocabulary(),
                shape.width()
            )));
        }
        if rows == 0 || limit < rows {
            return Err(PyValueError::new_err(format!(
                "rows: {rows} of at most {limit}; 1 and more are possible"
            )));
        }
        let after = After { cap, kind };
        let rules = Rules {
            rows,
            limit,
            share,
            possible,
            of_state,
            of_transformed,
            after,
            estimates,
        };
        Ok(Self {
            sketch,
            place: weight.place(),
            rules,
            workspaces: Mutex::default(),
        })
    }

    /// The logits of states.
    ///
    /// Args:
    ///     states: DLPack capsule of float32, bfloat16 or float16 (n, d), any strides.
    ///     out: Of the dtype of the logits (n, columns >= V), contiguous; of states that were answered the first V
    ///         columns are written.
    ///     weight: Of the weight that the head was made for.
    ///     lost: The share of |a| |b| by which float32 sums may be wrong.
    ///     threads: How many may work.
    ///
    /// Returns:
    ///     How each state was answered: bytes (n,), 0 fine, 1 not finite, 2 out of range, 3 too wide a window, 4 a live
    ///     logit that its code cannot explain; rows that were rescored, in all and for one state at most; estimates that
    ///     were lowered; seconds of rescoring; seconds of all.
    ///
    /// Raises:
    ///     TypeError: A tensor of another type or on another device.
    ///     ValueError: Shapes that do not fit, memory that overlaps, or a weight that is not where it was.
    fn step<'py>(
        &self,
        py: Python<'py>,
        states: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
        weight: &Bound<'_, PyAny>,
        lost: f64,
        threads: usize,
    ) -> PyResult<(Bound<'py, PyBytes>, usize, usize, usize, f64, f64)> {
        let (states, mut out) = (Tensor::of(states, "states")?, Tensor::of(out, "out")?);
        states.apart(&out)?;
        let weight = Tensor::of(weight, "weight")?;
        if weight.place() != self.place {
            return Err(PyValueError::new_err(
                "weight: it is not where it was, or not what it was",
            ));
        }
        weight.apart(&out)?;
        let sketch = self.sketch.get();
        sketch.apart(&out)?;
        let shape = out.shape();
        let [many, stride] = shape[..] else {
            return Err(PyValueError::new_err(format!("out: a matrix is wanted, not {shape:?}")));
        };
        if stride < sketch.shape.vocabulary() {
            return Err(PyValueError::new_err(format!(
                "out: {stride} columns, where the sketch has {} rows",
                sketch.shape.vocabulary()
            )));
        }
        if let [found, _] = states.shape()[..]
            && found != many
        {
            return Err(PyValueError::new_err(format!("out: {many} rows for {found} states")));
        }
        let mut kept = self.kept();
        states.floats(sketch.shape.width(), &mut kept.states)?;
        let to = match self.rules.after.kind {
            Kind::Single => Out::Single(out.numbers_mut(&shape)?),
            Kind::Brain => Out::Brain(out.numbers_mut::<bf16>(&shape)?),
            Kind::Half => Out::Half(out.numbers_mut::<f16>(&shape)?),
        };
        let head = step::Head {
            sketch: sketch.parts()?,
            widest: &sketch.widest,
            weight: weight_of(&weight)?,
            rules: self.rules,
        };
        kept.done.clear();
        kept.done.resize(many, Done::default());
        let caught = py.detach(|| {
            let Kept { work, states, done } = &mut kept;
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                head.step(sketch.isa, threads, lost, states, to, stride, work, done)
            }))
        });
        let times = caught.map_err(|panic| PyRuntimeError::new_err(format!("a kernel failed: {}", said(&*panic))))?;
        let done = &kept.done;
        let fine = || done.iter().filter(|one| one.outcome == Outcome::Fine);
        let outcomes = PyBytes::new_with(py, many, |bytes| {
            for (byte, one) in bytes.iter_mut().zip(done) {
                *byte = one.outcome as u8;
            }
            Ok(())
        })?;
        let answer = (
            outcomes,
            fine().map(|one| one.rescored).sum(),
            fine().map(|one| one.rescored).max().unwrap_or(0),
            fine().map(|one| one.clipped).sum(),
            times.rescore.as_secs_f64(),
            times.whole.as_secs_f64(),
        );
        self.keep(kept);
        Ok(answer)
    }
}

/// What a step works in.
#[derive(Default)]
struct Kept {
    work: Workspace,
    states: Vec<f32>,
    done: Vec<Done>,
}

impl Head {
    /// What an earlier step worked in, unless another thread has the list just now, or a fork froze it.
    fn kept(&self) -> Kept {
        self.workspaces
            .try_lock()
            .ok()
            .and_then(|mut kept| kept.pop())
            .unwrap_or_default()
    }

    fn keep(&self, work: Kept) {
        let kept = match self.workspaces.try_lock() {
            Ok(kept) => Some(kept),
            Err(std::sync::TryLockError::Poisoned(kept)) => Some(PoisonError::into_inner(kept)),
            Err(std::sync::TryLockError::WouldBlock) => None,
        };
        if let Some(mut kept) = kept
            && kept.len() < KEPT
        {
            kept.push(work);
        }
    }
}

/// What a panic said.
fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("it said nothing")
}
