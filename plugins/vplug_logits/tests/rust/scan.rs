//! The scan against plain arithmetic: the same integers and the same bits on each path, and no byte out of bounds.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "numbers of a kernel, small enough by construction"
)]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail loudly, too")]
#![expect(clippy::single_range_in_vec_init, reason = "it is one range that is meant")]
#![expect(unsafe_code, reason = "parts of a matrix are handed out")]

mod guarded;

use std::ops::Range;

use guarded::{Guarded, Tight};
use half::f16;
use proptest::prelude::*;
use vplug_logits_kernels::isa::Isa;
use vplug_logits_kernels::layout::{BLOCK, Bits, GROUPS, LANE, SUPER, Shape};
use vplug_logits_kernels::scan::{Rows, Scan};

/// What is multiplied, coordinate by coordinate, and how it lies in memory.
struct Problem {
    shape: Shape,
    states: usize,
    planes: usize,
    /// `(padded rows, d)`.
    codes: Vec<u8>,
    /// `(queries, d)`.
    queries: Vec<i8>,
    scale: Vec<f16>,
    factor: Vec<f32>,
    base: Vec<f32>,
}

/// Any numbers, but always the same ones.
struct Noise(u64);

impl Noise {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (((self.0 >> 32) * u64::from(end)) >> 32) as u32
    }

    fn unit(&mut self) -> f32 {
        self.below(1 << 24) as f32 / (1 << 23) as f32 - 1.0
    }
}

impl Problem {
    fn of(vocabulary: usize, width: usize, bits: Bits, states: usize, seed: u64) -> Self {
        let shape = Shape::new(vocabulary, width, bits).unwrap();
        let planes = if bits == Bits::Eight { 2 } else { 1 };
        let mut noise = Noise(seed);
        let largest = bits.largest() as u32;
        let mut codes = vec![0; shape.padded_rows() * width];
        codes[..vocabulary * width].fill_with(|| noise.below(largest + 1) as u8);
        let mut queries = vec![0; states * planes * width];
        queries.fill_with(|| (noise.below(255) as i32 - 127) as i8);
        let mut scale = vec![f16::ZERO; shape.padded_rows()];
        scale[..vocabulary].fill_with(|| f16::from_f32(noise.unit()));
        let factor = (0..states).map(|_| noise.unit()).collect();
        let base = (0..states).map(|_| noise.unit()).collect();
        Self {
            shape,
            states,
            planes,
            codes,
            queries,
            scale,
            factor,
            base,
        }
    }

    /// One state of it alone.
    fn alone(&self, state: usize) -> Self {
        let width = self.shape.width() * self.planes;
        Self {
            shape: self.shape,
            states: 1,
            planes: self.planes,
            codes: self.codes.clone(),
            queries: self.queries[state * width..][..width].to_vec(),
            scale: self.scale.clone(),
            factor: vec![self.factor[state]],
            base: vec![self.base[state]],
        }
    }

    fn packed(&self) -> Vec<u8> {
        let shape = &self.shape;
        let mut packed = vec![0; shape.code_bytes()];
        for (row, codes) in self
            .codes
            .chunks_exact(shape.width())
            .enumerate()
            .take(shape.vocabulary())
        {
            for (coordinate, code) in codes.iter().enumerate() {
                let (segment, byte) = (coordinate / shape.row_bytes(), coordinate % shape.row_bytes());
                let lane = row / BLOCK * shape.lanes() + byte / LANE;
                let place = (lane * BLOCK + row % BLOCK) * LANE + byte % LANE;
                packed[place] |= code << (segment * shape.bits().count());
            }
        }
        packed
    }

    fn words(&self) -> Vec<i32> {
        let (shape, segments) = (&self.shape, self.shape.bits().segments());
        let mut words = Vec::new();
        for lane in 0..shape.lanes() {
            for segment in 0..segments {
                for query in self.queries.chunks_exact(shape.width()) {
                    let first = segment * shape.row_bytes() + lane * LANE;
                    let bytes: [_; LANE] =
                        std::array::from_fn(|byte| query.get(first + byte).copied().unwrap_or(0) as u8);
                    words.push(i32::from_le_bytes(bytes));
                }
            }
        }
        words
    }

    fn sums(&self) -> Vec<i32> {
        self.queries
            .chunks_exact(self.shape.width())
            .map(|query| query.iter().map(|q| i32::from(*q)).sum())
            .collect()
    }

    /// The integers as the definition has them, `(states, V)`.
    fn integers(&self) -> Vec<i64> {
        let largest = i64::from(self.shape.bits().largest());
        let mut integers = Vec::new();
        for planes in self.queries.chunks_exact(self.planes * self.shape.width()) {
            for codes in self
                .codes
                .chunks_exact(self.shape.width())
                .take(self.shape.vocabulary())
            {
                let integer = planes.chunks_exact(self.shape.width()).fold(0, |before, query| {
                    let products = codes
                        .iter()
                        .zip(query)
                        .map(|(c, q)| (2 * i64::from(*c) - largest) * i64::from(*q));
                    128 * before + products.sum::<i64>()
                });
                integers.push(integer);
            }
        }
        integers
    }

    /// The estimates as the definition has them, `(states, V)`.
    fn estimates(&self) -> Vec<f32> {
        let integers = self.integers();
        let vocabulary = self.shape.vocabulary();
        let mut estimates = Vec::new();
        for state in 0..self.states {
            for row in 0..vocabulary {
                let number = integers[state * vocabulary + row] as f32;
                estimates.push(number * (self.scale[row].to_f32() * self.factor[state]) + self.base[state]);
            }
        }
        estimates
    }

    /// Their maxima, `(states, groups)`.
    fn maxima(&self) -> Vec<f32> {
        let mut maxima = vec![f32::NEG_INFINITY; self.states * self.shape.groups()];
        for (state, estimates) in self.estimates().chunks_exact(self.shape.vocabulary()).enumerate() {
            for (row, estimate) in estimates.iter().enumerate() {
                let group = state * self.shape.groups() + row / SUPER * GROUPS + row % GROUPS;
                maxima[group] = maxima[group].max(*estimate);
            }
        }
        maxima
    }
}

/// A problem in memory that is guarded at one end.
struct Stage {
    shape: Shape,
    states: usize,
    planes: usize,
    codes: Guarded<u8>,
    words: Guarded<i32>,
    sums: Guarded<i32>,
    scale: Guarded<f16>,
    factor: Guarded<f32>,
    base: Guarded<f32>,
    tight: Tight,
}

impl Stage {
    fn of(problem: &Problem, tight: Tight) -> Self {
        Self {
            shape: problem.shape,
            states: problem.states,
            planes: problem.planes,
            codes: Guarded::of(&problem.packed(), tight),
            words: Guarded::of(&problem.words(), tight),
            sums: Guarded::of(&problem.sums(), tight),
            scale: Guarded::of(&problem.scale, tight),
            factor: Guarded::of(&problem.factor, tight),
            base: Guarded::of(&problem.base, tight),
            tight,
        }
    }

    fn scan(&self) -> Scan<'_> {
        Scan {
            shape: self.shape,
            codes: &self.codes,
            scale: &self.scale,
            words: &self.words,
            sums: &self.sums,
            states: self.states,
            planes: self.planes,
            factor: &self.factor,
            base: &self.base,
        }
    }

    fn integers(&self, isa: Isa) -> Vec<i64> {
        self.scan().integers(isa, 0..self.shape.supers())
    }

    /// Bits of the estimates and the maxima, written by one call for each range.
    fn run(&self, isa: Isa, ranges: &[Range<usize>]) -> (Vec<u32>, Vec<u32>) {
        let (columns, groups) = (self.shape.vocabulary(), self.shape.groups());
        // Rows lie further apart than they are long; what is between them keeps its bits.
        let mut estimates = Guarded::of(&vec![POISON; self.states * (columns + 3) - 3], self.tight);
        let mut maxima = Guarded::of(&vec![POISON; self.states * groups], self.tight);
        let rows = Rows::new(&mut estimates, self.states, columns, columns + 3);
        let tops = Rows::new(&mut maxima, self.states, groups, groups);
        for range in ranges {
            // SAFETY: each part has gone when the next one is made.
            let mut part = unsafe { rows.part(self.scan().columns(range)) };
            // SAFETY: the same.
            let mut top = unsafe { tops.part(range.start * GROUPS..range.end * GROUPS) };
            self.scan().run(isa, range.clone(), &mut part, &mut top);
        }
        let mut bits = Vec::new();
        for row in estimates.chunks(columns + 3) {
            bits.extend(row[..columns].iter().map(|estimate| estimate.to_bits()));
            assert!(
                row[columns..]
                    .iter()
                    .all(|between| between.to_bits() == POISON.to_bits())
            );
        }
        (bits, maxima.iter().map(|maximum| maximum.to_bits()).collect())
    }
}

/// A number that no scan writes.
const POISON: f32 = f32::from_bits(0x7fc0_1234);

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

fn any_bits() -> impl Strategy<Value = Bits> {
    prop::sample::select(Bits::ALL.to_vec())
}

fn any_tight() -> impl Strategy<Value = Tight> {
    prop::sample::select(vec![Tight::End, Tight::Start])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_path_gives_the_numbers_of_the_definition_and_stays_in_bounds(
        vocabulary in 1_usize..600,
        width in 1_usize..150,
        bits_of_code in any_bits(),
        states in 1_usize..20,
        seed: u64,
        tight in any_tight(),
    ) {
        let problem = Problem::of(vocabulary, width, bits_of_code, states, seed);
        let stage = Stage::of(&problem, tight);
        let whole = [0..problem.shape.supers()];
        let estimates = (bits(&problem.estimates()), bits(&problem.maxima()));
        for isa in Isa::available() {
            prop_assert_eq!(stage.integers(isa), problem.integers(), "integers, {}", isa.name());
            prop_assert_eq!(&stage.run(isa, &whole), &estimates, "estimates and maxima, {}", isa.name());
        }
    }

    #[test]
    fn a_state_has_the_same_bits_alone_and_in_a_batch(
        width in 1_usize..300, bits_of_code in any_bits(), states in 2_usize..40, seed: u64,
    ) {
        let problem = Problem::of(300, width, bits_of_code, states, seed);
        let state = seed as usize % states;
        let (batch, single) = (Stage::of(&problem, Tight::End), Stage::of(&problem.alone(state), Tight::End));
        for isa in Isa::available() {
            let (estimates, maxima) = batch.run(isa, &[0..2]);
            let row = estimates[state * 300..][..300].to_vec();
            let top = maxima[state * 2 * GROUPS..][..2 * GROUPS].to_vec();
            prop_assert_eq!((row, top), single.run(isa, &[0..2]), "{}", isa.name());
        }
    }

    #[test]
    fn parts_give_what_the_whole_gives(
        vocabulary in 1_usize..1500, cuts in prop::collection::vec(0_usize..9, 0..4), bits_of_code in any_bits(),
        states in 1_usize..4, seed: u64, tight in any_tight(),
    ) {
        let problem = Problem::of(vocabulary, 9, bits_of_code, states, seed);
        let (stage, supers) = (Stage::of(&problem, tight), problem.shape.supers());
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(supers)).chain([0, supers]).collect();
        cuts.sort_unstable();
        // The later ones first: no range needs another.
        let ranges: Vec<_> = cuts.windows(2).map(|ends| ends[0]..ends[1]).rev().collect();
        for isa in Isa::available() {
            prop_assert_eq!(stage.run(isa, &ranges), stage.run(isa, &[0..supers]), "{}", isa.name());
        }
    }
}

#[test]
fn the_widest_states_with_the_largest_numbers_do_not_wrap() {
    for bits_of_code in Bits::ALL {
        for (query, count) in [(127, 1), (-127, 2)] {
            let mut problem = Problem::of(3, 65_536, bits_of_code, count, 0);
            problem.queries.fill(query);
            problem.codes[..65_536].fill(bits_of_code.largest() as u8);
            problem.codes[65_536..2 * 65_536].fill(0);
            // Against the sign, so that 8-bit codes are as far from the middle as they go, both ways, side by side.
            for (i, code) in problem.codes[2 * 65_536..3 * 65_536].iter_mut().enumerate() {
                *code = if i % 4 < 2 { bits_of_code.largest() as u8 } else { 0 };
            }
            let (stage, integers) = (Stage::of(&problem, Tight::End), problem.integers());
            let query = if problem.planes == 2 { 127 * 128 + 127 } else { 127 };
            assert_eq!(integers[0].abs(), i64::from(bits_of_code.largest()) * query * 65_536);
            let estimates = (bits(&problem.estimates()), bits(&problem.maxima()));
            for isa in Isa::available() {
                assert!(stage.run(isa, &[0..1]) == estimates, "{bits_of_code:?}, {}", isa.name());
                assert!(
                    stage.integers(isa) == integers,
                    "{bits_of_code:?}, {query}, {count}, {}",
                    isa.name()
                );
            }
        }
    }
}

#[test]
fn wide_states_give_the_numbers_of_the_definition() {
    for bits_of_code in Bits::ALL {
        // Sums of i16 and of i32 are full, and begun again, several times.
        let problem = Problem::of(70, 2_083, bits_of_code, 7, 5);
        let stage = Stage::of(&problem, Tight::End);
        let estimates = (bits(&problem.estimates()), bits(&problem.maxima()));
        for isa in Isa::available() {
            assert!(
                stage.integers(isa) == problem.integers(),
                "{bits_of_code:?}, {}",
                isa.name()
            );
            assert!(stage.run(isa, &[0..1]) == estimates, "{bits_of_code:?}, {}", isa.name());
        }
    }
}

#[test]
fn one_plane_of_eight_bits_gives_the_numbers_of_the_definition() {
    for states in [1, 2, 3, 4, 9] {
        let mut problem = Problem::of(130, 601, Bits::Eight, states, 8);
        problem.planes = 1;
        problem.queries.truncate(states * 601);
        let stage = Stage::of(&problem, Tight::Start);
        let estimates = (bits(&problem.estimates()), bits(&problem.maxima()));
        for isa in Isa::available() {
            assert!(stage.integers(isa) == problem.integers(), "{states}, {}", isa.name());
            assert!(stage.run(isa, &[0..1]) == estimates, "{states}, {}", isa.name());
        }
    }
}

#[test]
fn two_planes_of_fewer_bits_give_the_numbers_of_the_definition() {
    for bits_of_code in [Bits::One, Bits::Two, Bits::Four] {
        let mut problem = Problem::of(130, 601, bits_of_code, 6, 8);
        (problem.planes, problem.states) = (2, 3);
        problem.factor.truncate(3);
        problem.base.truncate(3);
        let stage = Stage::of(&problem, Tight::End);
        let estimates = (bits(&problem.estimates()), bits(&problem.maxima()));
        for isa in Isa::available() {
            assert!(
                stage.integers(isa) == problem.integers(),
                "{bits_of_code:?}, {}",
                isa.name()
            );
            assert!(stage.run(isa, &[0..1]) == estimates, "{bits_of_code:?}, {}", isa.name());
        }
    }
}

#[test]
fn a_scale_that_is_not_a_number_harms_only_its_row() {
    let mut problem = Problem::of(20, 8, Bits::Two, 1, 1);
    problem.scale[3] = f16::NAN;
    let expected = problem.estimates();
    let stage = Stage::of(&problem, Tight::End);
    for isa in Isa::available() {
        let (estimates, maxima) = stage.run(isa, &[0..1]);
        assert!(f32::from_bits(estimates[3]).is_nan());
        assert_eq!(
            f32::from_bits(maxima[3]).to_bits(),
            expected[19].to_bits(),
            "{}",
            isa.name()
        );
    }
}

#[test]
fn slices_of_another_length_are_refused() {
    let problem = Problem::of(300, 40, Bits::Two, 2, 1);
    let stage = Stage::of(&problem, Tight::End);
    let scan = stage.scan();
    let wrong = [
        Scan {
            codes: &scan.codes[1..],
            ..scan
        },
        Scan {
            scale: &scan.scale[1..],
            ..scan
        },
        Scan {
            words: &scan.words[1..],
            ..scan
        },
        Scan {
            sums: &scan.sums[1..],
            ..scan
        },
        Scan {
            factor: &scan.factor[1..],
            ..scan
        },
        Scan {
            base: &scan.base[1..],
            ..scan
        },
        Scan { states: 3, ..scan },
        Scan { planes: 2, ..scan },
        Scan { planes: 3, ..scan },
    ];
    for scan in wrong {
        let refused = std::panic::catch_unwind(|| scan.integers(Isa::Portable, 0..2));
        assert!(refused.is_err(), "{scan:?}");
    }
    assert!(std::panic::catch_unwind(|| scan.integers(Isa::Portable, 0..3)).is_err());
    let narrow = std::panic::catch_unwind(|| {
        let (mut estimates, mut maxima) = ([0.0; 600], [0.0; 64]);
        let mut rows = Rows::new(&mut estimates, 2, 299, 300);
        scan.run(Isa::Portable, 0..2, &mut rows, &mut Rows::new(&mut maxima, 2, 32, 32));
    });
    assert!(narrow.is_err());
    assert!(std::panic::catch_unwind(|| Rows::new(&mut [0.0; 10], 2, 5, 6).rows()).is_err());
}
