//! Codes of rows. Its tensors are float64 and uint8, which NumPy knows, so they come by the buffer protocol.
#![expect(
    unsafe_code,
    reason = "buffers become slices, after everything about them was checked"
)]

use std::ops::Range;
use std::slice;

use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;

use crate::encode::{Encoded, encode as run};
use crate::isa::Isa;
use crate::layout::{Bits, Shape};

/// Code rows with the fastest instructions there are here, all of which give the same bits.
///
/// The caller alone holds the buffers: no other thread touches them until this returns.
///
/// Args:
///     rows: float64 `(m, d)`, C-contiguous; m and d at least 1.
///     bits: 1, 2, 4 or 8.
///     codes: uint8 `(ceil(m / 64), bytes / 4, 64, 4)`, C-contiguous: written.
///     numbers: float64 `(4, m)`, C-contiguous: scale, residual, norm and slope are written.
///
/// Raises:
///     ValueError: A row has NaN or infinity.
///     BufferError: A buffer has another type or shape, is not contiguous, is read-only, or overlaps another one.
#[pyfunction]
pub fn encode(
    py: Python<'_>,
    rows: &Bound<'_, PyAny>,
    bits: usize,
    codes: &Bound<'_, PyAny>,
    numbers: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let rows = PyBuffer::<f64>::get(rows)?;
    let codes = PyBuffer::<u8>::get(codes)?;
    let numbers = PyBuffer::<f64>::get(numbers)?;
    let &[count, width] = rows.shape() else {
        return Err(refused("rows", format!("{} dimensions, not 2", rows.dimensions())));
    };
    let bits = Bits::of(bits).ok_or_else(|| PyBufferError::new_err(format!("there are no codes of {bits} bits")))?;
    let shape = Shape::new(count, width, bits).map_err(|error| PyBufferError::new_err(error.to_string()))?;
    fits("rows", &rows, &[count, width])?;
    fits("codes", &codes, &[shape.blocks(), shape.lanes(), 64, 4])?;
    fits("numbers", &numbers, &[4, count])?;
    for (name, readonly) in [("codes", codes.readonly()), ("numbers", numbers.readonly())] {
        if readonly {
            return Err(refused(name, "no leave to be written to"));
        }
    }
    let places = [place(&rows), place(&codes), place(&numbers)];
    for (index, one) in places.iter().enumerate() {
        if places[index + 1..]
            .iter()
            .any(|other| one.start < other.end && other.start < one.end)
        {
            return Err(PyBufferError::new_err("buffers overlap"));
        }
    }
    // SAFETY: the buffer is contiguous and of this type and length, stays alive and in place as long as `rows` does, and by
    // contract nobody writes to it meanwhile. PyO3 has checked that it is aligned.
    let from = unsafe { slice::from_raw_parts(rows.buf_ptr().cast::<f64>(), rows.item_count()) };
    // SAFETY: as above; it may be written to, it overlaps no other, and by contract nobody else touches it.
    let codes_to = unsafe { slice::from_raw_parts_mut(codes.buf_ptr().cast::<u8>(), codes.item_count()) };
    // SAFETY: as above.
    let numbers_to = unsafe { slice::from_raw_parts_mut(numbers.buf_ptr().cast::<f64>(), numbers.item_count()) };
    let (scale, others) = numbers_to.split_at_mut(count);
    let (residual, others) = others.split_at_mut(count);
    let (norm, slope) = others.split_at_mut(count);
    let mut into = Encoded {
        codes: codes_to,
        scale,
        residual,
        norm,
        slope,
    };
    py.detach(|| run(Isa::best(), &shape, from, &mut into))
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

fn fits<T: Element>(name: &str, buffer: &PyBuffer<T>, shape: &[usize]) -> PyResult<()> {
    // PyO3 has compared the type, but takes one byte order for the other.
    if buffer.format().to_bytes().len() != 1 {
        return Err(refused(name, "numbers in another byte order"));
    }
    if buffer.shape() != shape {
        return Err(refused(name, format!("the shape {:?}, not {shape:?}", buffer.shape())));
    }
    if !buffer.is_c_contiguous() {
        return Err(refused(name, "gaps, or another order than C"));
    }
    Ok(())
}

fn place<T: Element>(buffer: &PyBuffer<T>) -> Range<usize> {
    let start = buffer.buf_ptr().addr();
    start..start + buffer.len_bytes()
}

fn refused(name: &str, what: impl std::fmt::Display) -> PyErr {
    PyBufferError::new_err(format!("{name} has {what}"))
}
