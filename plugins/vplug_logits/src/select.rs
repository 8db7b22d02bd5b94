//! Which rows matter: the best R, what a window lets in, and what reaches beyond a ceiling.
//!
//! None of it looks at every estimate. A scan keeps the maximum of each group of up to 16 rows; a threshold that so many
//! maxima reach as rows are wanted is reached by all of the best rows, so only superblocks with such a maximum are opened.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "vectors are loaded from addresses")
)]
#![expect(
    clippy::inline_always,
    reason = "what is inlined is compiled for the instructions of its caller"
)]

use half::f16;

use crate::isa::{Isa, compiled_for};
use crate::layout::{GROUPS, SUPER};

/// Steps of a bisection: 32 bits of a float decide.
const BITS: usize = 32;
/// A threshold need not be tight: up to this share more groups than rows are opened.
const ROOM: usize = 4;

/// What is reused from one state to the next, so that nothing is allocated.
#[derive(Default)]
pub struct Scratch {
    values: Vec<f32>,
}

/// The rows whose estimates are among the best `many`, and all that tie with the last of them.
///
/// # Parameters
///
/// `estimates`: of the V rows, none of them NaN; `maxima`: of its groups (`layout`); `ids`: cleared, then the rows, in
/// ascending order.
///
/// Gives the estimate of the last of them: every row that is at least so good is one.
pub fn best(
    isa: Isa,
    estimates: &[f32],
    maxima: &[f32],
    many: usize,
    scratch: &mut Scratch,
    ids: &mut Vec<u32>,
) -> f32 {
    ids.clear();
    if many >= estimates.len() {
        ids.extend(0..estimates.len() as u32);
        return f32::NEG_INFINITY;
    }
    let floor = if many < maxima.len() {
        reached_by(isa, maxima, many)
    } else {
        f32::NEG_INFINITY
    };
    collect(isa, estimates, maxima, floor, ids);
    scratch.values.clear();
    scratch.values.extend(ids.iter().map(|&id| estimates[id as usize]));
    let last = if ids.len() > many {
        *scratch
            .values
            .select_nth_unstable_by(many - 1, |one, other| other.total_cmp(one))
            .1
    } else {
        scratch.values.iter().copied().fold(f32::INFINITY, f32::min)
    };
    ids.retain(|&id| estimates[id as usize] >= last);
    last
}

/// The rows that are at least `floor`, appended in ascending order.
pub fn collect(isa: Isa, estimates: &[f32], maxima: &[f32], floor: f32, ids: &mut Vec<u32>) {
    compiled_for(isa, || {
        for (number, part) in estimates.chunks(SUPER).enumerate() {
            if reaching(&maxima[number * GROUPS..(number + 1) * GROUPS], floor) != 0 {
                for (lane, values) in part.chunks(GROUPS).enumerate() {
                    let first = number * SUPER + lane * GROUPS;
                    ids.extend(Ones(reaching(values, floor)).map(|offset| (first + offset) as u32));
                }
            }
        }
    });
}

/// How wide the window of one state is.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// What the best exact logit, less a rounding margin, demands of an upper bound.
    pub floor: f64,
    /// The bound is estimate + `slope` residual + `slack`.
    pub slope: f64,
    /// See `slope`.
    pub slack: f64,
}

impl Window {
    /// The upper bound of a row.
    pub fn upper(&self, estimate: f32, residual: f16) -> f64 {
        f64::from(estimate) + self.slope * f64::from(residual.to_f32()) + self.slack
    }
}

/// The rows below `taken` whose upper bound reaches the floor, appended in ascending order; no more than `most` of them.
///
/// # Parameters
///
/// `residuals`: of the rows; `widest`: the largest of each superblock.
///
/// Gives whether there were more.
#[expect(clippy::too_many_arguments, reason = "what a row is judged by")]
pub fn window(
    isa: Isa,
    estimates: &[f32],
    maxima: &[f32],
    residuals: &[f16],
    widest: &[f32],
    window: &Window,
    taken: f32,
    most: usize,
    ids: &mut Vec<u32>,
) -> bool {
    let before = ids.len();
    compiled_for(isa, || {
        for (number, part) in estimates.chunks(SUPER).enumerate() {
            // one estimate below this cannot reach the floor with any residual of the superblock
            let need = below(window.floor - window.slack - window.slope * f64::from(widest[number]));
            if need >= taken || reaching(&maxima[number * GROUPS..(number + 1) * GROUPS], need) == 0 {
                continue;
            }
            for (lane, values) in part.chunks(GROUPS).enumerate() {
                let first = number * SUPER + lane * GROUPS;
                for offset in Ones(reaching(values, need)) {
                    let (id, value) = (first + offset, values[offset]);
                    if value < taken && window.upper(value, residuals[id]) >= window.floor {
                        if ids.len() - before == most {
                            return true;
                        }
                        ids.push(id as u32);
                    }
                }
            }
        }
        false
    })
}

/// Lowers what is above `ceiling` to it, and gives how many were.
pub fn clip(isa: Isa, estimates: &mut [f32], maxima: &[f32], ceiling: f32) -> usize {
    compiled_for(isa, || {
        let mut clipped = 0;
        for (number, part) in estimates.chunks_mut(SUPER).enumerate() {
            if maxima[number * GROUPS..(number + 1) * GROUPS]
                .iter()
                .any(|&top| top > ceiling)
            {
                for value in part {
                    if *value > ceiling {
                        *value = ceiling;
                        clipped += 1;
                    }
                }
            }
        }
        clipped
    })
}

/// The largest number of each superblock, for `window`.
pub fn widest(residuals: &[f16]) -> Vec<f32> {
    residuals
        .chunks(SUPER)
        .map(|part| part.iter().map(|value| value.to_f32()).fold(0.0, f32::max))
        .collect()
}

/// A threshold that at least `many` of the values reach, and few more: by bisection of the order of floats.
fn reached_by(isa: Isa, values: &[f32], many: usize) -> f32 {
    compiled_for(isa, || {
        // the invariant: at least `many` reach `low`, fewer reach `high`
        let (mut low, mut high) = (i64::from(i32::MIN), i64::from(i32::MAX) + 1);
        for _ in 0..BITS {
            let middle = low + (high - low) / 2;
            if middle == low {
                break;
            }
            let count = count_reaching(values, float(middle as i32));
            if count < many {
                high = middle;
            } else {
                low = middle;
                if count <= many + many / ROOM {
                    break;
                }
            }
        }
        let found = float(low as i32);
        if found.is_nan() { f32::NEG_INFINITY } else { found }
    })
}

#[inline(always)]
fn count_reaching(values: &[f32], floor: f32) -> usize {
    values
        .chunks(1 << 16)
        .map(|part| part.iter().map(|&value| u32::from(value >= floor)).sum::<u32>() as usize)
        .sum()
}

/// Which of up to 16 values reach a floor, one bit for each.
#[inline(always)]
fn reaching(values: &[f32], floor: f32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if let Ok(all) = <&[f32; GROUPS]>::try_from(values) {
        use std::arch::x86_64::{_mm_cmpge_ps, _mm_loadu_ps, _mm_movemask_ps, _mm_set1_ps};

        let mut bits = 0;
        for (quarter, four) in all.as_chunks::<4>().0.iter().enumerate() {
            // SAFETY: each processor of this kind has these instructions, and four numbers lie there.
            let reach = unsafe { _mm_movemask_ps(_mm_cmpge_ps(_mm_loadu_ps(four.as_ptr()), _mm_set1_ps(floor))) };
            bits |= (reach as u32) << (4 * quarter);
        }
        return bits;
    }
    let bit = |(offset, &value): (usize, &f32)| u32::from(value >= floor) << offset;
    values.iter().enumerate().map(bit).fold(0, |bits, one| bits | one)
}

/// The places of the ones in some bits, the lowest first.
struct Ones(u32);

impl Iterator for Ones {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let place = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(place)
    }
}

/// A float32 that is not above `value`.
fn below(value: f64) -> f32 {
    let near = value as f32;
    if f64::from(near) > value {
        near.next_down()
    } else {
        near
    }
}

/// The float at a place of the order of all floats: negative ones are turned around.
#[inline(always)]
fn float(key: i32) -> f32 {
    f32::from_bits((if key < 0 { !key ^ i32::MIN } else { key }) as u32)
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use half::f16;
    use proptest::prelude::*;

    use super::{Scratch, Window, best, clip, collect, float, widest, window};
    use crate::isa::Isa;
    use crate::layout::{GROUPS, SUPER};

    /// The maxima of the groups, as a scan keeps them.
    fn maxima(estimates: &[f32]) -> Vec<f32> {
        let mut tops = vec![f32::NEG_INFINITY; estimates.len().div_ceil(SUPER) * GROUPS];
        for (id, &value) in estimates.iter().enumerate() {
            let top = &mut tops[id / SUPER * GROUPS + id % GROUPS];
            *top = top.max(value);
        }
        tops
    }

    fn values() -> impl Strategy<Value = Vec<f32>> {
        let value = prop_oneof![-9.0..9.0f32, (-3..3i8).prop_map(f32::from), Just(f32::NEG_INFINITY)];
        prop::collection::vec(value, 1..1500)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_best_are_those_of_a_sort_with_all_ties(estimates in values(), many in 1..900usize) {
            let mut sorted = estimates.clone();
            sorted.sort_by(|one, other| other.total_cmp(one));
            let last = if many < sorted.len() { sorted[many - 1] } else { f32::NEG_INFINITY };
            let wanted: Vec<u32> =
                (0..estimates.len()).filter(|&id| estimates[id] >= last).map(|id| id as u32).collect();
            for isa in Isa::available() {
                let mut ids = vec![7];
                let found = best(isa, &estimates, &maxima(&estimates), many, &mut Scratch::default(), &mut ids);
                prop_assert_eq!(&ids, &wanted);
                prop_assert_eq!(found.total_cmp(&last), Ordering::Equal);
            }
        }

        #[test]
        fn a_window_holds_what_reaches_its_floor_and_was_not_taken(
            estimates in values(), floor in -9.0..9.0f64, slope in 0.0..2.0f64, slack in 0.0..1.0f64, taken in -9.0..9.0f32,
        ) {
            let residuals: Vec<f16> = (0..estimates.len()).map(|id| f16::from_f32((id * 7 % 13) as f32 / 5.0)).collect();
            let rule = Window { floor, slope, slack };
            let wanted: Vec<u32> = (0..estimates.len())
                .filter(|&id| estimates[id] < taken && rule.upper(estimates[id], residuals[id]) >= floor)
                .map(|id| id as u32)
                .collect();
            for isa in Isa::available() {
                let tops = maxima(&estimates);
                let largest = widest(&residuals);
                for most in [usize::MAX, wanted.len(), wanted.len() / 2] {
                    let mut ids = Vec::new();
                    let more = window(isa, &estimates, &tops, &residuals, &largest, &rule, taken, most, &mut ids);
                    prop_assert_eq!(&ids[..], &wanted[..wanted.len().min(most)]);
                    prop_assert_eq!(more, wanted.len() > most);
                }
            }
        }

        #[test]
        fn a_ceiling_lowers_what_is_above_it(estimates in values(), ceiling in -9.0..9.0f32) {
            for isa in Isa::available() {
                let mut lowered = estimates.clone();
                let clipped = clip(isa, &mut lowered, &maxima(&estimates), ceiling);
                prop_assert_eq!(clipped, estimates.iter().filter(|&&value| value > ceiling).count());
                prop_assert!(estimates.iter().zip(&lowered).all(|(before, after)| before.min(ceiling).total_cmp(after).is_eq()));
            }
        }

        #[test]
        fn what_reaches_a_floor_is_collected(estimates in values(), floor in -9.0..9.0f32) {
            let wanted: Vec<u32> =
                (0..estimates.len()).filter(|&id| estimates[id] >= floor).map(|id| id as u32).collect();
            for isa in Isa::available() {
                let mut ids = Vec::new();
                collect(isa, &estimates, &maxima(&estimates), floor, &mut ids);
                prop_assert_eq!(&ids, &wanted);
            }
        }
    }

    #[test]
    fn keys_are_in_the_order_of_their_floats() {
        let keys = [i32::MIN + (1 << 23), -5, -1, 0, 1, 5, i32::MAX - (1 << 24)];
        assert!(keys.windows(2).all(|pair| float(pair[0]) <= float(pair[1])));
        assert_eq!((float(0), float(-1)), (0.0, -0.0));
    }
}
