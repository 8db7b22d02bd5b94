//! Where a scan writes: columns of a row-major matrix, which threads may share.
#![expect(
    unsafe_code,
    reason = "threads write different columns of the same rows, which no slice can express"
)]

use std::marker::PhantomData;
use std::ops::Range;
use std::slice;

/// Columns of a matrix that nobody else reads or writes meanwhile.
#[derive(Debug)]
pub struct Rows<'a> {
    first: *mut f32,
    height: usize,
    columns: usize,
    stride: usize,
    numbers: PhantomData<&'a mut [f32]>,
}

// SAFETY: it stands for a `&mut [f32]`, which may go to another thread.
unsafe impl Send for Rows<'_> {}
// SAFETY: a shared one only tells its size and gives parts, which is unsafe itself.
unsafe impl Sync for Rows<'_> {}

impl Rows<'_> {
    /// All columns of a matrix.
    ///
    /// # Parameters
    ///
    /// `stride`: numbers from one row to the next, at least `columns`.
    ///
    /// # Panics
    ///
    /// `numbers` is too short for it.
    pub fn new(numbers: &mut [f32], rows: usize, columns: usize, stride: usize) -> Rows<'_> {
        assert!(stride >= columns, "rows of {columns} numbers cannot lie {stride} apart");
        let needed = match rows {
            0 => Some(0),
            _ => stride
                .checked_mul(rows - 1)
                .and_then(|before| before.checked_add(columns)),
        };
        assert!(
            needed.is_some_and(|needed| needed <= numbers.len()),
            "{rows} rows of {columns} numbers, {stride} apart, do not lie in {} numbers",
            numbers.len()
        );
        Rows {
            first: numbers.as_mut_ptr(),
            height: rows,
            columns,
            stride,
            numbers: PhantomData,
        }
    }

    /// How many rows there are.
    pub const fn rows(&self) -> usize {
        self.height
    }

    /// How many columns there are.
    pub const fn columns(&self) -> usize {
        self.columns
    }

    /// Some of the columns, counted from 0 in the part.
    ///
    /// # Safety
    ///
    /// As long as the part is used, no other part of these columns is, nor is `self` for anything but other parts.
    ///
    /// # Panics
    ///
    /// Not all of the columns exist.
    #[must_use]
    pub unsafe fn part(&self, columns: Range<usize>) -> Self {
        assert!(
            columns.start <= columns.end && columns.end <= self.columns,
            "columns {columns:?} of {}",
            self.columns
        );
        Self {
            first: self.first.wrapping_add(columns.start),
            height: self.height,
            columns: columns.len(),
            stride: self.stride,
            numbers: PhantomData,
        }
    }

    /// The same columns for a while.
    pub(super) const fn borrowed(&mut self) -> Rows<'_> {
        Rows {
            numbers: PhantomData,
            ..*self
        }
    }

    /// `count` numbers of a row from `column` on.
    #[inline]
    pub(super) fn numbers(&mut self, row: usize, column: usize, count: usize) -> &mut [f32] {
        assert!(row < self.height && column <= self.columns && count <= self.columns - column);
        // SAFETY: these numbers lie in the matrix, whose size `new` checked, and in the columns that are ours alone;
        // the slice borrows `self` mutably, so there is one of them at a time.
        unsafe { slice::from_raw_parts_mut(self.first.add(row * self.stride + column), count) }
    }
}
