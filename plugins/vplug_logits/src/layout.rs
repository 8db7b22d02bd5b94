//! How the codes of a head lie in memory: 64 rows side by side, four bytes of each in turn.
//!
//! ```text
//! codes[block][k / 4][row % 64][k % 4] = byte k of the row
//! ```
//!
//! Byte k of a row holds the codes of the coordinates k, k + bytes, k + 2 bytes, ...: 8 / bits segments of the padded
//! width, the first one in the lowest bits. So four bytes of a state, broadcast, serve 64 rows, and a scan reads its bytes
//! once, in order. Padding coordinates and padding rows have code 0. `vplug_logits/layout.py` says the same in torch.

use std::fmt;

/// Rows that lie side by side.
pub const BLOCK: usize = 64;
/// Bytes of one row that lie together.
pub const LANE: usize = 4;
/// Rows whose estimates are looked at together: four blocks, of which each of 16 lanes has its maximum.
pub const SUPER: usize = 4 * BLOCK;
/// Groups of a superblock: group g of it holds its rows g, g + 16, g + 32, ...
pub const GROUPS: usize = 16;
/// The widest state: 255 * 127 * `WIDEST` still fits an i32, so no sum of a scan wraps.
pub const WIDEST: usize = 65_536;

/// Bits of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bits {
    /// Codes 0 and 1.
    One,
    /// Codes 0 to 3.
    Two,
    /// Codes 0 to 15.
    Four,
    /// Codes 0 to 255.
    Eight,
}

impl Bits {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::One, Self::Two, Self::Four, Self::Eight];

    /// The codes of so many bits.
    pub const fn of(bits: usize) -> Option<Self> {
        match bits {
            1 => Some(Self::One),
            2 => Some(Self::Two),
            4 => Some(Self::Four),
            8 => Some(Self::Eight),
            _ => None,
        }
    }

    /// How many bits.
    pub const fn count(self) -> usize {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Four => 4,
            Self::Eight => 8,
        }
    }

    /// Codes in a byte.
    pub const fn segments(self) -> usize {
        8 / self.count()
    }

    /// The largest code.
    pub const fn largest(self) -> i32 {
        (1 << self.count()) - 1
    }
}

/// The size of a sketch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    vocabulary: usize,
    width: usize,
    bits: Bits,
}

/// A size that no kernel takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapeError(pub String);

impl fmt::Display for ShapeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for ShapeError {}

impl Shape {
    /// A sketch of `vocabulary` rows of `width` coordinates.
    ///
    /// # Errors
    ///
    /// No row, no coordinate, more than `WIDEST` coordinates, or more rows than a u32 counts.
    pub fn new(vocabulary: usize, width: usize, bits: Bits) -> Result<Self, ShapeError> {
        if width == 0 || width > WIDEST {
            return Err(ShapeError(format!(
                "states of {width} numbers: 1 to {WIDEST} are possible"
            )));
        }
        if vocabulary == 0 || u32::try_from(vocabulary).is_err() {
            return Err(ShapeError(format!(
                "a head of {vocabulary} rows: 1 to {} are possible",
                u32::MAX
            )));
        }
        Ok(Self {
            vocabulary,
            width,
            bits,
        })
    }

    /// V.
    pub const fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// d.
    pub const fn width(&self) -> usize {
        self.width
    }

    /// b.
    pub const fn bits(&self) -> Bits {
        self.bits
    }

    /// Coordinates that are coded: d, rounded up so that a row fills whole lanes.
    pub const fn padded_width(&self) -> usize {
        self.width.next_multiple_of(LANE * self.bits.segments())
    }

    /// Bytes of one row.
    pub const fn row_bytes(&self) -> usize {
        self.padded_width() / self.bits.segments()
    }

    /// Lanes of four bytes of one row.
    pub const fn lanes(&self) -> usize {
        self.row_bytes() / LANE
    }

    /// Blocks of 64 rows.
    pub const fn blocks(&self) -> usize {
        self.vocabulary.div_ceil(BLOCK)
    }

    /// Rows that are coded: V, rounded up to whole blocks.
    pub const fn padded_rows(&self) -> usize {
        self.blocks() * BLOCK
    }

    /// Bytes of one block.
    pub const fn block_bytes(&self) -> usize {
        self.lanes() * LANE * BLOCK
    }

    /// Bytes of all codes.
    pub const fn code_bytes(&self) -> usize {
        self.blocks() * self.block_bytes()
    }

    /// Superblocks, the last of which may be short of blocks and of rows.
    pub const fn supers(&self) -> usize {
        self.vocabulary.div_ceil(SUPER)
    }

    /// Groups whose maxima are kept: 16 for each superblock.
    pub const fn groups(&self) -> usize {
        self.supers() * GROUPS
    }
}

#[cfg(test)]
mod tests {
    use super::{Bits, Shape};

    #[test]
    fn a_row_fills_whole_lanes_and_a_vocabulary_whole_blocks() {
        let shape = Shape::new(65, 17, Bits::Two).unwrap();
        assert_eq!(shape.padded_width(), 32);
        assert_eq!((shape.row_bytes(), shape.lanes()), (8, 2));
        assert_eq!(
            (shape.blocks(), shape.padded_rows(), shape.code_bytes()),
            (2, 128, 1024)
        );
        assert_eq!((shape.supers(), shape.groups()), (1, 16));
    }

    #[test]
    fn sizes_that_would_wrap_are_refused() {
        assert!(Shape::new(1, 0, Bits::One).is_err());
        assert!(Shape::new(0, 1, Bits::One).is_err());
        assert!(Shape::new(1, 65_537, Bits::One).is_err());
        assert!(Shape::new(1 << 32, 8, Bits::One).is_err());
    }
}
