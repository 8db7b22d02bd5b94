//! Borrowed tensors: what a DLPack capsule says of a tensor is checked before its memory is looked at.
//!
//! The structures are those of DLPack 0 (<https://dmlc.github.io/dlpack>), which every version of torch hands out. A
//! tensor that was taken from its capsule keeps the memory until it is dropped, whatever the host does with its own.
#![expect(unsafe_code, reason = "a capsule holds a C structure, and a tensor is a pointer")]

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use std::slice;

use half::{bf16, f16};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

const FRESH: &CStr = c"dltensor";
const USED: &CStr = c"used_dltensor";
const CPU: i32 = 1;

#[repr(C)]
struct Device {
    kind: i32,
    number: i32,
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: Device,
    dimensions: i32,
    dtype: DataType,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// A number type that a tensor may hold.
pub trait Number: Copy + 'static {
    /// Its name in torch.
    const NAME: &str;
    /// Its DLPack code and its bits.
    const TYPE: (u8, u8);
}

macro_rules! numbers {
    ($($number:ty, $name:literal, $code:literal, $bits:literal;)*) => {
        $(impl Number for $number {
            const NAME: &str = $name;
            const TYPE: (u8, u8) = ($code, $bits);
        })*
    };
}

numbers! {
    i64, "int64", 0, 64;
    u8, "uint8", 1, 8;
    f16, "float16", 2, 16;
    f32, "float32", 2, 32;
    bf16, "bfloat16", 4, 16;
}

/// Where a tensor lies, and how.
#[derive(PartialEq, Eq)]
pub struct Place {
    address: usize,
    dtype: (u8, u8),
    shape: Vec<usize>,
    strides: Vec<i64>,
}

/// A tensor on the CPU, taken from its capsule.
pub struct Tensor {
    managed: NonNull<Managed>,
    name: &'static str,
    /// The addresses between which it lies.
    span: (usize, usize),
}

// SAFETY: it is memory with a count of its holders that any thread may lower; what is read from it, and what may be
// written to it, is borrowed through `numbers` and `numbers_mut`.
unsafe impl Send for Tensor {}
// SAFETY: as above; a shared tensor is only read.
unsafe impl Sync for Tensor {}

impl Tensor {
    /// Takes the tensor out of a fresh capsule.
    ///
    /// # Errors
    ///
    /// No capsule of a tensor, one that was taken already, or a tensor that is on no CPU.
    pub fn of(capsule: &Bound<'_, PyAny>, name: &'static str) -> PyResult<Self> {
        let no_tensor = || PyTypeError::new_err(format!("{name}: no fresh DLPack capsule of a tensor was handed over"));
        let capsule = capsule.cast::<PyCapsule>().map_err(|_| no_tensor())?;
        let pointer = capsule.pointer_checked(Some(FRESH)).map_err(|_| no_tensor())?;
        let managed = pointer.cast::<Managed>();
        // SAFETY: a capsule of this name holds such a structure. Renamed, it leaves the deleter to us.
        if unsafe { pyo3::ffi::PyCapsule_SetName(capsule.as_ptr(), USED.as_ptr()) } != 0 {
            return Err(PyErr::fetch(capsule.py()));
        }
        let mut tensor = Self {
            managed,
            name,
            span: (0, 0),
        };
        tensor.span = tensor.reach();
        let device = &tensor.raw().device;
        if device.kind != CPU {
            return Err(PyTypeError::new_err(format!(
                "{name}: the tensor is on a device of DLPack's kind {}, number {}; these kernels run on the CPU",
                device.kind, device.number
            )));
        }
        Ok(tensor)
    }

    const fn raw(&self) -> &DlTensor {
        // SAFETY: the structure lives until its deleter is called, in `drop`.
        unsafe { &self.managed.as_ref().tensor }
    }

    /// Its dimensions.
    pub fn shape(&self) -> Vec<usize> {
        let raw = self.raw();
        let many = usize::try_from(raw.dimensions).unwrap_or(0);
        if many == 0 {
            return Vec::new();
        }
        // SAFETY: DLPack has as many numbers there as dimensions.
        let shape = unsafe { slice::from_raw_parts(raw.shape, many) };
        shape
            .iter()
            .map(|&length| usize::try_from(length).unwrap_or(0))
            .collect()
    }

    /// The numbers from one entry to the next, for each dimension.
    fn strides(&self) -> Vec<i64> {
        let (raw, shape) = (self.raw(), self.shape());
        if raw.strides.is_null() {
            let mut step = 1;
            let mut strides: Vec<i64> = shape
                .iter()
                .rev()
                .map(|&length| {
                    let stride = step;
                    step *= length as i64;
                    stride
                })
                .collect();
            strides.reverse();
            return strides;
        }
        if shape.is_empty() {
            return Vec::new();
        }
        // SAFETY: as for the shape.
        unsafe { slice::from_raw_parts(raw.strides, shape.len()) }.to_vec()
    }

    /// Where it lies, and how: what tells two tensors apart without reading them.
    pub fn place(&self) -> Place {
        let dtype = self.raw().dtype;
        Place {
            address: self.raw().data.addr().wrapping_add(self.raw().byte_offset as usize),
            dtype: (dtype.code, dtype.bits),
            shape: self.shape(),
            strides: self.strides(),
        }
    }

    /// Whether it holds numbers of this type.
    pub const fn holds<T: Number>(&self) -> bool {
        let found = self.raw().dtype;
        found.code == T::TYPE.0 && found.bits == T::TYPE.1 && found.lanes == 1
    }

    /// The first number, as an aligned pointer; a type that is not asked for is refused.
    fn first<T: Number>(&self) -> PyResult<*mut T> {
        if !self.holds::<T>() {
            let DataType { code, bits, .. } = self.raw().dtype;
            return Err(PyTypeError::new_err(format!(
                "{}: {} is wanted, not DLPack's type {code} of {bits} bits",
                self.name,
                T::NAME
            )));
        }
        let pointer = self
            .raw()
            .data
            .cast::<u8>()
            .wrapping_add(self.raw().byte_offset as usize)
            .cast::<T>();
        if pointer.is_null() || !pointer.is_aligned() {
            return Err(PyValueError::new_err(format!(
                "{}: the memory is missing or not aligned",
                self.name
            )));
        }
        Ok(pointer)
    }

    /// Numbers that lie in one piece.
    ///
    /// # Errors
    ///
    /// Another type or shape is found, or the numbers are apart.
    pub fn numbers<T: Number>(&self, shape: &[usize]) -> PyResult<&[T]> {
        let many = self.whole(shape)?;
        if many == 0 {
            return Ok(&[]);
        }
        // SAFETY: aligned, of this type, and a contiguous tensor has so many of them; the memory lives as long as `self`.
        // Who writes to it meanwhile races with us as with each other operation on the tensor: that is the host's to
        // prevent, as it is for torch's own.
        Ok(unsafe { slice::from_raw_parts(self.first::<T>()?, many) })
    }

    /// The same to write to.
    ///
    /// # Errors
    ///
    /// As `numbers`.
    pub fn numbers_mut<T: Number>(&mut self, shape: &[usize]) -> PyResult<&mut [T]> {
        let many = self.whole(shape)?;
        if many == 0 {
            return Ok(&mut []);
        }
        // SAFETY: as in `numbers`; that nothing else borrows the memory was seen by `apart`.
        Ok(unsafe { slice::from_raw_parts_mut(self.first::<T>()?, many) })
    }

    /// The numbers of a matrix whose rows each lie in one piece: all of them, from the first to the last, and the numbers
    /// from one row to the next.
    ///
    /// # Errors
    ///
    /// Another type, no matrix, or rows that overlap or run backwards.
    pub fn rows<T: Number>(&self) -> PyResult<(&[T], usize, usize, usize)> {
        let (shape, strides) = (self.shape(), self.strides());
        let (&[rows, width], &[stride, step]) = (&shape[..], &strides[..]) else {
            return Err(PyValueError::new_err(format!(
                "{}: a matrix is wanted, not {shape:?}",
                self.name
            )));
        };
        let stride = if rows > 1 {
            usize::try_from(stride).unwrap_or(0)
        } else {
            width
        };
        if width == 0 || (width > 1 && step != 1) || stride < width {
            return Err(PyValueError::new_err(format!(
                "{}: rows of {shape:?} with strides {strides:?} do not each lie in one piece; hand over a contiguous tensor",
                self.name
            )));
        }
        if rows == 0 {
            return Ok((&[], rows, width, stride));
        }
        let many = stride.checked_mul(rows - 1).and_then(|most| most.checked_add(width));
        let many = many.ok_or_else(|| PyValueError::new_err(format!("{}: the shape is out of range", self.name)))?;
        // SAFETY: as in `numbers`: the last number of a tensor with these strides is the last one here.
        Ok((
            unsafe { slice::from_raw_parts(self.first::<T>()?, many) },
            rows,
            width,
            stride,
        ))
    }

    /// A matrix of floats, whatever its type and strides, as float32.
    ///
    /// # Errors
    ///
    /// No matrix of this width, or no floats of 16 or 32 bits.
    pub fn floats(&self, width: usize, to: &mut Vec<f32>) -> PyResult<()> {
        if self.holds::<f32>() {
            self.copied(width, to, |number: f32| number)
        } else if self.holds::<f16>() {
            self.copied(width, to, f16::to_f32)
        } else {
            self.copied(width, to, bf16::to_f32)
        }
    }

    fn copied<T: Number>(&self, width: usize, to: &mut Vec<f32>, widened: impl Fn(T) -> f32) -> PyResult<()> {
        let (shape, strides) = (self.shape(), self.strides());
        let (&[rows, found], &[down, right]) = (&shape[..], &strides[..]) else {
            return Err(PyValueError::new_err(format!(
                "{}: a matrix is wanted, not {shape:?}",
                self.name
            )));
        };
        if found != width {
            return Err(PyValueError::new_err(format!(
                "{}: {width} numbers wide is wanted, not {found}",
                self.name
            )));
        }
        to.clear();
        if rows == 0 {
            return Ok(());
        }
        let first = self.first::<T>()?;
        for row in 0..rows as isize {
            for column in 0..width as isize {
                // SAFETY: aligned, of this type, and an entry of the tensor: inside its shape, where its strides say.
                to.push(widened(unsafe {
                    *first.offset(row * down as isize + column * right as isize)
                }));
            }
        }
        Ok(())
    }

    /// How many numbers a tensor of this shape has, if this one is it and lies in one piece.
    fn whole(&self, wanted: &[usize]) -> PyResult<usize> {
        let shape = self.shape();
        if shape != wanted {
            return Err(PyValueError::new_err(format!(
                "{}: {wanted:?} is wanted, not {shape:?}",
                self.name
            )));
        }
        let mut step = 1;
        for (&length, stride) in shape.iter().zip(self.strides()).rev() {
            if length > 1 && stride != step {
                return Err(PyValueError::new_err(format!(
                    "{}: the numbers do not lie in one piece",
                    self.name
                )));
            }
            step *= length as i64;
        }
        Ok(shape.iter().product())
    }

    /// The address of its lowest byte, and the one behind its highest.
    fn reach(&self) -> (usize, usize) {
        let (raw, shape) = (self.raw(), self.shape());
        let first = raw.data.addr().wrapping_add(raw.byte_offset as usize);
        if shape.contains(&0) {
            return (first, first);
        }
        let bytes = usize::from(raw.dtype.bits).div_ceil(8);
        let (mut low, mut high) = (first, first.saturating_add(bytes));
        for (length, stride) in shape.into_iter().zip(self.strides()) {
            let far = usize::try_from(stride.unsigned_abs())
                .unwrap_or(usize::MAX)
                .saturating_mul(length - 1)
                .saturating_mul(bytes);
            if stride < 0 {
                low = low.saturating_sub(far);
            } else {
                high = high.saturating_add(far);
            }
        }
        (low, high)
    }

    /// Refuses to write to memory that is read at the same time.
    ///
    /// # Errors
    ///
    /// The two overlap.
    pub fn apart(&self, other: &Self) -> PyResult<()> {
        let ((first, last), (begin, end)) = (self.span, other.span);
        if first < end && begin < last {
            return Err(PyValueError::new_err(format!(
                "{} and {} overlap in memory",
                self.name, other.name
            )));
        }
        Ok(())
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        // SAFETY: the structure is ours since its capsule was renamed, and nothing borrows from it any more.
        unsafe {
            if let Some(deleter) = self.managed.as_ref().deleter {
                deleter(self.managed.as_ptr());
            }
        }
    }
}
