//! Codes of rows: what they are, on each path, without a byte out of bounds.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "numbers of a test, small enough by construction"
)]
#![expect(clippy::float_cmp, reason = "equal is meant")]
#![expect(clippy::unwrap_used, reason = "tests may fail loudly, what helps them too")]

mod guarded;

use guarded::{Guarded, Tight};
use proptest::prelude::*;
use vplug_logits_kernels::encode::{Encoded, NotFinite, encode};
use vplug_logits_kernels::isa::Isa;
use vplug_logits_kernels::layout::{Bits, Shape};

/// What `encode` writes, owned.
#[derive(Clone, Debug)]
struct Made {
    codes: Vec<u8>,
    scale: Vec<f64>,
    residual: Vec<f64>,
    norm: Vec<f64>,
    slope: Vec<f64>,
}

impl Made {
    /// All numbers as bits, so that equal means equal.
    fn bits(&self) -> (Vec<u8>, Vec<u64>) {
        let numbers = [&self.scale, &self.residual, &self.norm, &self.slope];
        (
            self.codes.clone(),
            numbers.into_iter().flatten().map(|x| x.to_bits()).collect(),
        )
    }
}

fn shape_of(rows: &[f64], width: usize, bits: Bits) -> Shape {
    Shape::new(rows.len() / width, width, bits).unwrap()
}

fn try_made(isa: Isa, rows: &[f64], width: usize, bits: Bits) -> Result<Made, NotFinite> {
    let shape = shape_of(rows, width, bits);
    // What was there before must not matter.
    let numbers = vec![f64::NAN; shape.vocabulary()];
    let mut made = Made {
        codes: vec![0xA5; shape.code_bytes()],
        scale: numbers.clone(),
        residual: numbers.clone(),
        norm: numbers.clone(),
        slope: numbers,
    };
    let mut into = Encoded {
        codes: &mut made.codes,
        scale: &mut made.scale,
        residual: &mut made.residual,
        norm: &mut made.norm,
        slope: &mut made.slope,
    };
    encode(isa, &shape, rows, &mut into).map(|()| made)
}

fn made(isa: Isa, rows: &[f64], width: usize, bits: Bits) -> Made {
    try_made(isa, rows, width, bits).unwrap()
}

/// The code of a coordinate, from the place that `layout` documents.
fn code_at(codes: &[u8], shape: &Shape, row: usize, coordinate: usize) -> u8 {
    let (segment, k) = (coordinate / shape.row_bytes(), coordinate % shape.row_bytes());
    let byte = codes[row / 64 * shape.block_bytes() + k / 4 * 256 + row % 64 * 4 + k % 4];
    let bits = shape.bits().count();
    u8::try_from(u32::from(byte) >> (segment * bits) & ((1 << bits) - 1)).unwrap()
}

/// Numbers in about -3..3, the same for the same seed.
fn some_rows(count: usize, width: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
    };
    (0..count * width)
        .map(|_| uniform() + uniform() + uniform() + uniform())
        .collect()
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(x, y)| x * y).sum()
}

/// u of codes.
fn levels(codes: &[u8], bits: Bits) -> Vec<f64> {
    codes
        .iter()
        .map(|&code| f64::from(code) - f64::from(bits.largest()) / 2.0)
        .collect()
}

fn cosine(codes: &[u8], row: &[f64], bits: Bits) -> f64 {
    let u = levels(codes, bits);
    dot(&u, row) / (dot(&u, &u) * dot(row, row)).sqrt()
}

/// The codes of a row by the formulas as they are written, one sum after the other.
fn plain_codes(row: &[f64], bits: Bits) -> Vec<u8> {
    let top = f64::from(bits.largest());
    let largest = row.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
    let rms = (dot(row, row) / row.len() as f64).sqrt();
    let steps: Vec<f64> = match bits {
        Bits::One => vec![rms],
        Bits::Two => [0.8, 0.87, 0.94, 1.0, 1.07, 1.15].map(|share| share * rms).to_vec(),
        Bits::Four => [0.27, 0.3, 0.33, 0.36, 0.4].map(|share| share * rms).to_vec(),
        Bits::Eight => [1.0, 0.96, 0.92].map(|share| share * largest * 2.0 / 255.0).to_vec(),
    };
    let mut best = (f64::NEG_INFINITY, Vec::new());
    for step in steps {
        let place = |x: &f64| (x / step + f64::midpoint(top, 1.0)).floor().clamp(0.0, top) as u8;
        let codes: Vec<u8> = row.iter().map(place).collect();
        let cosine = cosine(&codes, row, bits);
        if cosine > best.0 {
            best = (cosine, codes);
        }
    }
    best.1
}

/// Scale, residual, norm and slope of a row with these codes.
fn plain_numbers(row: &[f64], codes: &[u8], bits: Bits) -> [f64; 4] {
    let u = levels(codes, bits);
    let scale = match bits {
        Bits::Eight => dot(&u, row) / dot(&u, &u),
        _ => dot(row, row) / dot(&u, row),
    };
    let apart: Vec<f64> = u.iter().zip(row).map(|(u, w)| scale * u - w).collect();
    [
        scale,
        dot(&apart, &apart).sqrt(),
        dot(&u, &u).sqrt() * scale,
        dot(&apart, &u),
    ]
}

#[test]
fn codes_and_numbers_are_those_of_the_formulas() {
    for bits in Bits::ALL {
        for width in [1, 2, 15, 16, 17, 33, 96, 577] {
            let rows = some_rows(70, width, width as u64);
            let shape = shape_of(&rows, width, bits);
            let made = made(Isa::Portable, &rows, width, bits);
            for (index, row) in rows.chunks_exact(width).enumerate() {
                let found: Vec<u8> = (0..width)
                    .map(|coordinate| code_at(&made.codes, &shape, index, coordinate))
                    .collect();
                let codes = plain_codes(row, bits);
                // Short rows have steps that are equally good.
                let as_good = (cosine(&found, row, bits) - cosine(&codes, row, bits)).abs() < 1e-12;
                assert!(
                    found == codes || width < 15 && as_good,
                    "{bits:?}, row {index} of {width}"
                );
                let [scale, residual, norm, slope] = plain_numbers(row, &found, bits);
                let length = dot(row, row).sqrt();
                let close = |found: f64, expected: f64, size: f64| {
                    assert!(
                        (found - expected).abs() <= 1e-12 * size,
                        "{bits:?}, row {index} of {width}: {found} is not {expected}"
                    );
                };
                close(made.scale[index], scale, scale);
                close(made.norm[index], norm, norm);
                close(made.residual[index], residual, length);
                close(made.slope[index], slope, length * norm / scale);
            }
        }
    }
}

#[test]
fn every_path_gives_the_same_bits() {
    for bits in Bits::ALL {
        for width in [1, 7, 16, 31, 64, 577] {
            let rows = some_rows(130, width, 3);
            let portable = made(Isa::Portable, &rows, width, bits).bits();
            for isa in Isa::available() {
                assert_eq!(
                    made(isa, &rows, width, bits).bits(),
                    portable,
                    "{} {bits:?} {width}",
                    isa.name()
                );
            }
        }
    }
}

#[test]
fn a_row_is_coded_by_itself() {
    for bits in Bits::ALL {
        let width = 45;
        let rows = some_rows(200, width, 5);
        let whole = made(Isa::best(), &rows, width, bits).bits();
        let mut joined = (Vec::new(), [const { Vec::new() }; 4]);
        for part in rows.chunks(64 * width) {
            let made = made(Isa::best(), part, width, bits);
            joined.0.extend(made.codes);
            for (all, numbers) in joined
                .1
                .iter_mut()
                .zip([made.scale, made.residual, made.norm, made.slope])
            {
                all.extend(numbers.iter().map(|x| x.to_bits()));
            }
        }
        assert_eq!(whole, (joined.0, joined.1.concat()));
    }
}

#[test]
fn padding_has_code_0() {
    for bits in Bits::ALL {
        let width = 21;
        let rows = some_rows(67, width, 6);
        let shape = shape_of(&rows, width, bits);
        let made = made(Isa::best(), &rows, width, bits);
        for row in 0..shape.padded_rows() {
            for coordinate in 0..shape.padded_width() {
                if row >= 67 || coordinate >= width {
                    assert_eq!(code_at(&made.codes, &shape, row, coordinate), 0, "{row} {coordinate}");
                }
            }
        }
    }
}

#[test]
fn a_row_of_zeros_has_all_numbers_0() {
    for isa in Isa::available() {
        for bits in Bits::ALL {
            let mut rows = some_rows(3, 20, 7);
            rows[20..40].fill(0.0);
            rows[30] = -0.0;
            let made = made(isa, &rows, 20, bits);
            assert!(made.scale[0] > 0.0 && made.scale[2] > 0.0);
            let numbers = [made.scale[1], made.residual[1], made.norm[1], made.slope[1]];
            assert_eq!(numbers, [0.0; 4]);
        }
    }
}

#[test]
fn tiny_and_huge_rows_have_the_codes_of_plain_ones() {
    for isa in Isa::available() {
        for bits in Bits::ALL {
            let rows = some_rows(64, 40, 8);
            let plain = made(isa, &rows, 40, bits);
            // Powers of two scale everything without rounding.
            for exponent in [-997, 997] {
                let factor = 2.0_f64.powi(exponent);
                let scaled: Vec<f64> = rows.iter().map(|x| x * factor).collect();
                let other = made(isa, &scaled, 40, bits);
                assert_eq!(other.codes, plain.codes);
                for (one, other) in [(&plain.scale, &other.scale), (&plain.residual, &other.residual)] {
                    assert!(one.iter().zip(other).all(|(one, other)| *other == one * factor));
                }
            }
            // Below the normal numbers digits are lost, and nothing else.
            let denormal = vec![f64::from_bits(1); 40];
            let made = made(isa, &denormal, 40, bits);
            assert!(made.scale[0].is_finite() && made.residual[0].is_finite());
        }
    }
}

#[test]
fn the_first_row_that_is_not_finite_is_told() {
    for isa in Isa::available() {
        for odd in [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for coordinate in [0, 15, 16, 36] {
                let mut rows = some_rows(5, 37, 9);
                rows[3 * 37 + coordinate] = odd;
                rows[4 * 37] = odd;
                let error = try_made(isa, &rows, 37, Bits::Two).unwrap_err();
                assert_eq!(error, NotFinite { row: 3 });
                assert_eq!(error.to_string(), "row 3 holds NaN or infinity");
            }
        }
    }
}

#[test]
#[should_panic(expected = "bytes of codes")]
fn too_little_room_is_refused() {
    let shape = Shape::new(65, 8, Bits::One).unwrap();
    let rows = vec![1.0; 65 * 8];
    let (mut codes, mut scale) = (vec![0; shape.code_bytes() - 1], vec![0.0; 65]);
    let (mut residual, mut norm, mut slope) = (scale.clone(), scale.clone(), scale.clone());
    let mut into = Encoded {
        codes: &mut codes,
        scale: &mut scale,
        residual: &mut residual,
        norm: &mut norm,
        slope: &mut slope,
    };
    let _ = encode(Isa::Portable, &shape, &rows, &mut into);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_beyond_the_buffers_is_touched(
        count in 1_usize..140,
        width in 1_usize..100,
        bits in prop::sample::select(Bits::ALL.to_vec()),
        isa in prop::sample::select(Isa::available()),
        tight in prop::sample::select(vec![Tight::End, Tight::Start]),
        seed: u64,
    ) {
        let rows = some_rows(count, width, seed);
        let expected = made(Isa::Portable, &rows, width, bits);
        let shape = shape_of(&rows, width, bits);
        let rows = Guarded::of(&rows, tight);
        let mut codes = Guarded::of(&vec![0xA5; shape.code_bytes()], tight);
        let [mut scale, mut residual, mut norm, mut slope] =
            [(); 4].map(|()| Guarded::of(&vec![f64::NAN; count], tight));
        let mut into = Encoded {
            codes: &mut codes,
            scale: &mut scale,
            residual: &mut residual,
            norm: &mut norm,
            slope: &mut slope,
        };
        encode(isa, &shape, &rows, &mut into).unwrap();
        let found = Made {
            codes: codes.to_vec(),
            scale: scale.to_vec(),
            residual: residual.to_vec(),
            norm: norm.to_vec(),
            slope: slope.to_vec(),
        };
        prop_assert_eq!(found.bits(), expected.bits());
    }
}
