//! The live weight of a head, borrowed from whoever holds it.

use half::{bf16, f16};

/// Its numbers, row after row, `stride` apart.
#[derive(Clone, Copy, Debug)]
pub enum Numbers<'a> {
    /// float32.
    Single(&'a [f32]),
    /// bfloat16.
    Brain(&'a [bf16]),
    /// float16.
    Half(&'a [f16]),
}

impl Numbers<'_> {
    /// How many there are.
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

/// A matrix of rows that each lie in one piece.
#[derive(Clone, Copy, Debug)]
pub struct Weight<'a> {
    numbers: Numbers<'a>,
    rows: usize,
    width: usize,
    stride: usize,
}

impl<'a> Weight<'a> {
    /// A matrix; `None` where the numbers are too few for it.
    ///
    /// # Parameters
    ///
    /// `stride`: numbers from one row to the next, at least `width`.
    pub fn new(numbers: Numbers<'a>, rows: usize, width: usize, stride: usize) -> Option<Self> {
        let needed = match rows {
            0 => 0,
            _ => stride.checked_mul(rows - 1)?.checked_add(width)?,
        };
        (width > 0 && stride >= width && needed <= numbers.len()).then_some(Self {
            numbers,
            rows,
            width,
            stride,
        })
    }

    /// All of its numbers, rows `stride` apart.
    pub const fn numbers(&self) -> Numbers<'a> {
        self.numbers
    }

    /// How many rows there are.
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Numbers of a row.
    pub const fn width(&self) -> usize {
        self.width
    }

    /// Numbers from one row to the next.
    pub const fn stride(&self) -> usize {
        self.stride
    }
}

#[cfg(test)]
mod tests {
    use super::{Numbers, Weight};

    #[test]
    fn a_matrix_beyond_its_numbers_is_refused() {
        let numbers = [0.0; 11];
        assert!(Weight::new(Numbers::Single(&numbers), 3, 3, 4).is_some());
        assert!(Weight::new(Numbers::Single(&numbers), 3, 4, 4).is_none());
        assert!(Weight::new(Numbers::Single(&numbers), 2, 4, 3).is_none());
        assert!(Weight::new(Numbers::Single(&numbers), usize::MAX, 4, 4).is_none());
        assert!(Weight::new(Numbers::Single(&numbers), 0, 4, 4).is_some());
    }
}
