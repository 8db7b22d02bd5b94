//! A sketch, held for as long as it is scanned; and single kernels, for whoever leads a step by himself.

use half::{bf16, f16};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::dlpack::Tensor;
use super::isa_of;
use crate::isa::Isa;
use crate::layout::{BLOCK, Bits, LANE, Shape};
use crate::query::Queries;
use crate::read::read_all;
use crate::step;
use crate::weight::{Numbers, Weight};
use crate::{select, transform};

/// Codes and what belongs to them, borrowed from tensors that stay as they are.
///
/// Args:
///     vocabulary: V.
///     width: d.
///     bits: b.
///     unit: Of what `scale` and `residual` are multiples.
///     codes: DLPack capsule of uint8 (blocks, bytes / 4, 64, 4), contiguous.
///     scale: Of float16 (padded rows,).
///     residual: Of float16 (padded rows,).
///     transform: Of bfloat16 (d, d), contiguous.
///     mean: Of float32 (d,).
///     isa: The instructions to use; None: the best ones here.
///
/// Raises:
///     TypeError: A tensor of another type or on another device.
///     ValueError: Another shape, or instructions that this processor does not have.
#[pyclass(frozen, module = "vplug_logits._kernels")]
pub struct Sketch {
    pub shape: Shape,
    pub isa: Isa,
    pub widest: Vec<f32>,
    unit: f64,
    codes: Tensor,
    scale: Tensor,
    residual: Tensor,
    matrix: Tensor,
    mean: Tensor,
}

#[pymethods]
impl Sketch {
    #[new]
    #[pyo3(signature = (vocabulary, width, bits, unit, *, codes, scale, residual, transform, mean, isa=None))]
    #[expect(clippy::too_many_arguments, reason = "the parts of a sketch, by keyword")]
    fn new(
        vocabulary: usize,
        width: usize,
        bits: usize,
        unit: f64,
        codes: &Bound<'_, PyAny>,
        scale: &Bound<'_, PyAny>,
        residual: &Bound<'_, PyAny>,
        transform: &Bound<'_, PyAny>,
        mean: &Bound<'_, PyAny>,
        isa: Option<&str>,
    ) -> PyResult<Self> {
        let bits = Bits::of(bits).ok_or_else(|| PyValueError::new_err(format!("no codes of {bits} bits are known")))?;
        let shape = Shape::new(vocabulary, width, bits).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let residual = Tensor::of(residual, "residual")?;
        let widest = select::widest(residual.numbers::<f16>(&[shape.padded_rows()])?);
        let sketch = Self {
            shape,
            isa: isa_of(isa)?,
            widest,
            unit,
            codes: Tensor::of(codes, "codes")?,
            scale: Tensor::of(scale, "scale")?,
            residual,
            matrix: Tensor::of(transform, "transform")?,
            mean: Tensor::of(mean, "mean")?,
        };
        sketch.parts()?;
        Ok(sketch)
    }

    /// The instructions that are used.
    #[getter]
    fn isa(&self) -> &'static str {
        self.isa.name()
    }

    /// h' = h T.
    ///
    /// Args:
    ///     states: DLPack capsule of float32 (n, d), contiguous.
    ///     out: The same, written.
    fn transform(&self, py: Python<'_>, states: &Bound<'_, PyAny>, out: &Bound<'_, PyAny>) -> PyResult<()> {
        let (states, mut out) = (Tensor::of(states, "states")?, Tensor::of(out, "out")?);
        states.apart(&out)?;
        self.apart(&out)?;
        let many = states.shape().first().copied().unwrap_or(0);
        let width = self.shape.width();
        let from = states.numbers::<f32>(&[many, width])?;
        let to = out.numbers_mut::<f32>(&[many, width])?;
        let matrix = self.parts()?.matrix;
        py.detach(|| {
            let turn = if self.shape.bits() == Bits::Eight {
                transform::transform_wide
            } else {
                transform::transform
            };
            turn(self.isa, matrix, width, from, 0..width, to);
        });
        Ok(())
    }

    /// The estimates of all centred logits of transformed states, as their int8 gives them.
    ///
    /// Args:
    ///     transformed: DLPack capsule of float32 (n, d), contiguous.
    ///     out: Of float32 (n, V), contiguous, written.
    ///     lost: Of float32 (n,), written: a bound of |h' - its int8|.
    ///     threads: How many may work.
    ///     planes: int8 for each number of h', 1 or 2; None: 2 at 8 bits.
    #[pyo3(signature = (transformed, out, lost, threads, planes=None))]
    fn scan(
        &self,
        py: Python<'_>,
        transformed: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
        lost: &Bound<'_, PyAny>,
        threads: usize,
        planes: Option<usize>,
    ) -> PyResult<()> {
        let planes = planes.unwrap_or(if self.shape.bits() == Bits::Eight { 2 } else { 1 });
        if !matches!(planes, 1 | 2) {
            return Err(PyValueError::new_err(format!("planes: {planes} is neither 1 nor 2")));
        }
        let transformed = Tensor::of(transformed, "transformed")?;
        let (mut out, mut lost) = (Tensor::of(out, "out")?, Tensor::of(lost, "lost")?);
        transformed.apart(&out)?;
        transformed.apart(&lost)?;
        out.apart(&lost)?;
        self.apart(&out)?;
        self.apart(&lost)?;
        let many = transformed.shape().first().copied().unwrap_or(0);
        let from = transformed.numbers::<f32>(&[many, self.shape.width()])?;
        let to = out.numbers_mut::<f32>(&[many, self.shape.vocabulary()])?;
        let lost = lost.numbers_mut::<f32>(&[many])?;
        let parts = self.parts()?;
        if many == 0 {
            return Ok(());
        }
        py.detach(|| {
            let mut queries = Queries::new();
            queries.fill_planes(self.isa, &self.shape, from, many, planes);
            lost.copy_from_slice(queries.lost());
            let factor: Vec<f32> = queries
                .steps()
                .iter()
                .map(|&step| (0.5 * self.unit * f64::from(step)) as f32)
                .collect();
            let base = vec![0.0; many];
            let mut maxima = vec![0.0; many * self.shape.groups()];
            step::scan_all(
                &parts.scan(&queries, &factor, &base),
                self.isa,
                threads,
                to,
                self.shape.vocabulary(),
                &mut maxima,
            );
        });
        Ok(())
    }
}

impl Sketch {
    /// Refuses to write into it.
    pub fn apart(&self, out: &Tensor) -> PyResult<()> {
        [&self.codes, &self.scale, &self.residual, &self.matrix, &self.mean]
            .into_iter()
            .try_for_each(|part| part.apart(out))
    }

    /// All of it, borrowed.
    pub fn parts(&self) -> PyResult<step::Sketch<'_>> {
        let (shape, width) = (self.shape, self.shape.width());
        let rows = shape.padded_rows();
        Ok(step::Sketch {
            shape,
            codes: self.codes.numbers(&[shape.blocks(), shape.lanes(), BLOCK, LANE])?,
            scale: self.scale.numbers(&[rows])?,
            residual: self.residual.numbers(&[rows])?,
            unit: self.unit,
            matrix: self.matrix.numbers(&[width, width])?,
            mean: self.mean.numbers(&[width])?,
        })
    }
}

/// The weight in a tensor.
pub fn weight_of(tensor: &Tensor) -> PyResult<Weight<'_>> {
    let (numbers, rows, width, stride) = if tensor.holds::<bf16>() {
        let (numbers, rows, width, stride) = tensor.rows()?;
        (Numbers::Brain(numbers), rows, width, stride)
    } else if tensor.holds::<f16>() {
        let (numbers, rows, width, stride) = tensor.rows()?;
        (Numbers::Half(numbers), rows, width, stride)
    } else {
        let (numbers, rows, width, stride) = tensor.rows()?;
        (Numbers::Single(numbers), rows, width, stride)
    };
    Weight::new(numbers, rows, width, stride)
        .ok_or_else(|| PyValueError::new_err("weight: the memory is shorter than its shape says"))
}

/// Exact logits of single (hidden state, row) pairs, summed in float32.
///
/// Args:
///     weight: DLPack capsule of float32, bfloat16 or float16 (rows, d), each row in one piece.
///     rows: Of int64 (m,): ids of rows.
///     owners: Of int64 (m,): indices of states.
///     states: Of float32 (n, d), contiguous.
///     out: Of float32 (m,), written.
///     isa: As for `Sketch`.
#[pyfunction]
#[pyo3(signature = (weight, rows, owners, states, out, *, threads, isa=None))]
#[expect(clippy::too_many_arguments, reason = "the tensors of one kernel")]
pub fn rescore(
    py: Python<'_>,
    weight: &Bound<'_, PyAny>,
    rows: &Bound<'_, PyAny>,
    owners: &Bound<'_, PyAny>,
    states: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
    threads: usize,
    isa: Option<&str>,
) -> PyResult<()> {
    let isa = isa_of(isa)?;
    let (weight, rows) = (Tensor::of(weight, "weight")?, Tensor::of(rows, "rows")?);
    let (owners, states) = (Tensor::of(owners, "owners")?, Tensor::of(states, "states")?);
    let mut out = Tensor::of(out, "out")?;
    for read in [&weight, &rows, &owners, &states] {
        read.apart(&out)?;
    }
    let matrix = weight_of(&weight)?;
    let [many, width] = states.shape()[..] else {
        return Err(PyValueError::new_err("states: a matrix is wanted"));
    };
    if width != matrix.width() {
        return Err(PyValueError::new_err(format!(
            "states: {width} numbers wide, where rows have {}",
            matrix.width()
        )));
    }
    let pairs = rows.shape();
    let numbered = |tensor: &Tensor, most: usize, name: &str| -> PyResult<Vec<u32>> {
        let inside = |&id: &i64| u32::try_from(id).ok().filter(|&id| (id as usize) < most);
        tensor
            .numbers::<i64>(&pairs)?
            .iter()
            .map(inside)
            .collect::<Option<_>>()
            .ok_or_else(|| PyValueError::new_err(format!("{name}: an index is outside 0..{most}")))
    };
    let (rows, owners) = (
        numbered(&rows, matrix.rows(), "rows")?,
        numbered(&owners, many, "owners")?,
    );
    let states = states.numbers::<f32>(&[many, width])?;
    let out = out.numbers_mut::<f32>(&pairs)?;
    py.detach(|| step::rescore_all(isa, threads, &matrix, &rows, &owners, states, out));
    Ok(())
}

/// Reads each byte of a tensor once, as a scan does, and does nothing with it: the speed that no scan can pass.
///
/// Args:
///     tensor: DLPack capsule of uint8, contiguous.
///     threads: How many may work.
///
/// Returns:
///     A checksum.
#[pyfunction]
pub fn read(py: Python<'_>, tensor: &Bound<'_, PyAny>, threads: usize) -> PyResult<u64> {
    let tensor = Tensor::of(tensor, "tensor")?;
    let bytes = tensor.numbers::<u8>(&tensor.shape())?;
    Ok(py.detach(|| read_all(bytes, threads)))
}
