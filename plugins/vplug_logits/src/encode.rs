//! Codes of transformed rows, and how far each code is from its row: `vplug_logits/codes.py` says the same in torch.
//!
//! A row w becomes q = scale u, u = (2 c - K) / 2. The step that c is rounded with is the best of a few by the cosine of u
//! and w; the scale makes the estimate unbiased at 1, 2 and 4 bits, and the residual smallest at 8.
//!
//! Each row is coded by itself, and each sum has `LANES` accumulators, coordinate c in accumulator c % `LANES`, products
//! rounded before they are added: the same bits on each processor and in blocks of any size.
#![expect(
    unsafe_code,
    reason = "one function is compiled for the instructions of several processors"
)]
#![expect(clippy::inline_always, reason = "what is inlined has the instructions of its caller")]

use std::fmt;

use crate::isa::Isa;
use crate::layout::{BLOCK, Bits, LANE, Shape};

/// Accumulators of a sum: as many as keep two AVX-512 registers, four of AVX2 or eight of SSE2 and NEON busy.
const LANES: usize = 16;
/// 2^52: what is added to it keeps no fraction.
const WHOLE: f64 = 4_503_599_627_370_496.0;
/// Stands in for the length of a row of zeros, whose cosine is then 0.
const SMALLEST: f64 = 1e-300;

/// Where the codes of m rows go.
#[derive(Debug)]
pub struct Encoded<'a> {
    /// c in 0..=K, packed as `layout` says: `Shape::code_bytes`; padding is 0.
    pub codes: &'a mut [u8],
    /// 0 for a row of zeros; (m,), as are the others.
    pub scale: &'a mut [f64],
    /// |scale u - w|.
    pub residual: &'a mut [f64],
    /// |scale u|.
    pub norm: &'a mut [f64],
    /// <scale u - w, u>.
    pub slope: &'a mut [f64],
}

/// A row that has no code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotFinite {
    /// The first one.
    pub row: usize,
}

impl fmt::Display for NotFinite {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "row {} holds NaN or infinity", self.row)
    }
}

impl std::error::Error for NotFinite {}

/// Code rows.
///
/// # Parameters
///
/// `shape`: m rows of d coordinates, and the bits. `rows`: (m, d), one after the other.
///
/// # Errors
///
/// A row with NaN or infinity; what was written until then means nothing.
///
/// # Panics
///
/// A slice has another length than `shape` says, or the instructions are not those of this processor.
pub fn encode(isa: Isa, shape: &Shape, rows: &[f64], into: &mut Encoded<'_>) -> Result<(), NotFinite> {
    let count = shape.vocabulary();
    assert_eq!(Some(rows.len()), count.checked_mul(shape.width()), "numbers of rows");
    assert_eq!(into.codes.len(), shape.code_bytes(), "bytes of codes");
    for (numbers, name) in [
        (&into.scale, "scales"),
        (&into.residual, "residuals"),
        (&into.norm, "norms"),
        (&into.slope, "slopes"),
    ] {
        assert_eq!(numbers.len(), count, "{name}");
    }
    assert!(isa.runs_here(), "{} does not run here", isa.name());
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: this processor has the instructions, as was just asserted.
        Isa::Avx512 => unsafe { all_avx512(shape, rows, into) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Isa::Avx2 => unsafe { all_avx2(shape, rows, into) },
        _ => all(shape, rows, into),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn all_avx512(shape: &Shape, rows: &[f64], into: &mut Encoded<'_>) -> Result<(), NotFinite> {
    all(shape, rows, into)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn all_avx2(shape: &Shape, rows: &[f64], into: &mut Encoded<'_>) -> Result<(), NotFinite> {
    all(shape, rows, into)
}

/// Numbers of one row.
#[derive(Clone, Copy, Debug)]
struct Fit {
    scale: f64,
    residual: f64,
    norm: f64,
    slope: f64,
}

#[inline(always)]
fn all(shape: &Shape, rows: &[f64], into: &mut Encoded<'_>) -> Result<(), NotFinite> {
    let levels = Levels::of(shape.bits());
    let mut scaled = vec![0.0; shape.width()];
    let mut line = vec![0; shape.padded_width()]; // beyond the width it stays 0
    into.codes.fill(0);
    for (index, row) in rows.chunks_exact(shape.width()).enumerate() {
        let Some(fit) = coded(levels, row, &mut scaled, &mut line) else {
            return Err(NotFinite { row: index });
        };
        into.scale[index] = fit.scale;
        into.residual[index] = fit.residual;
        into.norm[index] = fit.norm;
        into.slope[index] = fit.slope;
        let block = &mut into.codes[index / BLOCK * shape.block_bytes()..][..shape.block_bytes()];
        pack(shape, &mut line, index % BLOCK, block);
    }
    Ok(())
}

/// The numbers of a row, and its codes in `line`; `None` where it is not finite.
#[inline(always)]
fn coded(levels: Levels, row: &[f64], scaled: &mut [f64], line: &mut [u8]) -> Option<Fit> {
    let largest = largest(row)?;
    let some = largest > 0.0;
    // Worked on as multiples of the largest coordinate: squares of tiny and of huge rows stay in range.
    let unit = if some { largest } else { 1.0 };
    for (to, from) in scaled.iter_mut().zip(row) {
        *to = from / unit;
    }
    let scaled = &*scaled;
    let [squared] = sums(scaled, |x| [x * x]);
    let length = squared.sqrt();
    let rms = length / (row.len() as f64).sqrt();

    let (mut step, mut inner, mut square, mut best) = (1.0, 0.0, 0.0, -1.0);
    for &share in levels.shares() {
        let tried = match levels.bits {
            Bits::Eight => share * 2.0 / levels.top,
            _ if some => rms * share,
            _ => 1.0,
        };
        let [along, own] = sums(scaled, |x| {
            let u = levels.level(x, tried);
            [u * x, u * u]
        });
        let cosine = along / (own.sqrt() * length.max(SMALLEST));
        if cosine > best {
            (step, inner, square, best) = (tried, along, own, cosine);
        }
    }

    let scale = match (some, levels.bits) {
        (false, _) => 0.0,
        (true, Bits::Eight) => inner / square,
        (true, _) => squared / inner,
    };
    for (code, &x) in line.iter_mut().zip(scaled) {
        *code = levels.code(x, step);
    }
    let [distance, slope] = sums(scaled, |x| {
        let u = levels.level(x, step);
        let difference = u * scale - x;
        [difference * difference, difference * u]
    });
    Some(Fit {
        scale: scale * unit,
        residual: distance.sqrt() * unit,
        norm: square.sqrt() * scale * unit,
        slope: slope * unit,
    })
}

/// The levels that codes of so many bits stand for.
#[derive(Clone, Copy, Debug)]
struct Levels {
    bits: Bits,
    /// K.
    top: f64,
    /// Code of the smallest level above 0.
    half: f64,
    /// K / 2: where the level is 0.
    middle: f64,
}

impl Levels {
    fn of(bits: Bits) -> Self {
        let top = f64::from(bits.largest());
        Self {
            bits,
            top,
            half: f64::midpoint(top, 1.0),
            middle: top / 2.0,
        }
    }

    /// Steps that are tried, in multiples of the root mean square of a row, as `codes.py` has them. At 8 bits, where
    /// clipping is hardly worth it, in multiples of the one that just reaches the largest coordinate.
    const fn shares(self) -> &'static [f64] {
        match self.bits {
            Bits::One => &[1.0],
            Bits::Two => &[0.8, 0.87, 0.94, 1.0, 1.07, 1.15],
            Bits::Four => &[0.27, 0.3, 0.33, 0.36, 0.4],
            Bits::Eight => &[1.0, 0.96, 0.92],
        }
    }

    /// The nearest code, upwards in the middle, as a number.
    #[inline(always)]
    fn nearest(self, x: f64, step: f64) -> f64 {
        let place = (x / step + self.half).clamp(0.0, self.top);
        // The floor, without an instruction that not every processor has.
        let whole = (place + WHOLE) - WHOLE;
        whole - if whole > place { 1.0 } else { 0.0 }
    }

    #[inline(always)]
    fn level(self, x: f64, step: f64) -> f64 {
        self.nearest(x, step) - self.middle
    }

    #[inline(always)]
    fn code(self, x: f64, step: f64) -> u8 {
        // The last bits of a sum with 2^52 are the whole number.
        (self.nearest(x, step) + WHOLE).to_bits() as u8
    }
}

/// The largest absolute value; `None` where one is NaN or infinite.
#[inline(always)]
fn largest(row: &[f64]) -> Option<f64> {
    let mut most = [0.0; LANES];
    let (chunks, rest) = row.as_chunks::<LANES>();
    for chunk in chunks {
        for (most, x) in most.iter_mut().zip(chunk) {
            *most = greater(*most, x.abs());
        }
    }
    for (most, x) in most.iter_mut().zip(rest) {
        *most = greater(*most, x.abs());
    }
    // NaN is greater than nothing, so it is looked for apart: 0 times any finite x is 0.
    let [odd] = sums(row, |x| [x * 0.0]);
    (odd == 0.0).then(|| most.into_iter().fold(0.0, greater))
}

#[inline(always)]
fn greater(one: f64, other: f64) -> f64 {
    if other > one { other } else { one }
}

/// Sums of what `terms` makes of each number, in the order that the module promises.
#[inline(always)]
fn sums<const N: usize>(numbers: &[f64], terms: impl Fn(f64) -> [f64; N]) -> [f64; N] {
    let mut sums = [[0.0; LANES]; N];
    let (chunks, rest) = numbers.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            let added = terms(chunk[lane]);
            for term in 0..N {
                sums[term][lane] += added[term];
            }
        }
    }
    for (lane, &x) in rest.iter().enumerate() {
        let added = terms(x);
        for term in 0..N {
            sums[term][lane] += added[term];
        }
    }
    sums.map(|mut lanes| {
        let mut kept = LANES;
        while kept > 1 {
            kept /= 2;
            for lane in 0..kept {
                lanes[lane] += lanes[lane + kept];
            }
        }
        lanes[0]
    })
}

/// Pack the codes of a row, and put them in their place in a block; `line` is used up.
#[inline(always)]
fn pack(shape: &Shape, line: &mut [u8], row: usize, block: &mut [u8]) {
    let bits = shape.bits().count();
    let (packed, others) = line.split_at_mut(shape.row_bytes());
    for (segment, codes) in others.chunks_exact(packed.len()).enumerate() {
        let shift = (segment + 1) * bits;
        for (byte, code) in packed.iter_mut().zip(codes) {
            *byte |= code << shift;
        }
    }
    for (bytes, to) in packed
        .as_chunks::<LANE>()
        .0
        .iter()
        .zip(block.chunks_exact_mut(BLOCK * LANE))
    {
        to[row * LANE..][..LANE].copy_from_slice(bytes);
    }
}
