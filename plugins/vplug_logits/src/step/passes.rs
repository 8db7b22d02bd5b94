//! The two passes over memory, each cut into tasks: all codes, and the rows that matter.
#![expect(unsafe_code, reason = "tasks write different columns of one matrix")]

use std::sync::Mutex;

use super::work::{Each, inner};
use crate::isa::Isa;
use crate::layout::{BLOCK, GROUPS, SUPER};
use crate::pool;
use crate::rescore::rescore;
use crate::scan::{Rows, Scan};
use crate::weight::Weight;

/// Bytes of codes that one task scans.
const TASK: usize = 96 << 10;
/// Pairs that one task rescores.
const PAIRS: usize = 64;

/// Pairs of rows and states on their way to `rescore`.
pub(super) struct Pairs<'a> {
    pub(super) rows: &'a mut Vec<u32>,
    pub(super) owners: &'a mut Vec<u32>,
    pub(super) exact: &'a mut Vec<f32>,
}

impl Pairs<'_> {
    /// Exact logits of the ids of each state that have none yet; those of lost states are passed by.
    pub(super) fn rescore(
        &mut self,
        isa: Isa,
        threads: usize,
        weight: &Weight<'_>,
        states: &[f32],
        each: &mut [Mutex<Each>],
    ) {
        self.rows.clear();
        self.owners.clear();
        for (state, one) in each.iter_mut().enumerate() {
            let one = inner(one);
            if one.fine() {
                self.rows.extend_from_slice(&one.ids[one.exact.len()..]);
                self.owners.resize(self.rows.len(), state as u32);
            }
        }
        self.exact.resize(self.rows.len(), 0.0);
        rescore_all(isa, threads, weight, self.rows, self.owners, states, self.exact);
        let mut rest = &self.exact[..];
        for one in each {
            let one = inner(one);
            if one.fine() {
                let (mine, others) = rest.split_at(one.ids.len() - one.exact.len());
                one.exact.extend_from_slice(mine);
                rest = others;
            }
        }
    }
}

/// Exact logits of all pairs.
pub fn rescore_all(
    isa: Isa,
    threads: usize,
    weight: &Weight<'_>,
    rows: &[u32],
    owners: &[u32],
    states: &[f32],
    exact: &mut [f32],
) {
    let threads = if rows.len() < 2 * PAIRS { 1 } else { threads };
    let size = if threads == 1 { rows.len().max(1) } else { PAIRS };
    let part = |task: usize| task * size..((task + 1) * size).min(rows.len());
    pool::over(exact, size, size, threads, |task, out| {
        rescore(isa, weight, &rows[part(task)], &owners[part(task)], states, out);
    });
}

/// Scans all rows.
pub fn scan_all(scan: &Scan<'_>, isa: Isa, threads: usize, estimates: &mut [f32], stride: usize, maxima: &mut [f32]) {
    let supers = scan.shape.supers();
    let each = (TASK / (scan.shape.block_bytes() * (SUPER / BLOCK))).max(1);
    let each = if threads == 1 { supers } else { each };
    let (many, groups) = (scan.states, scan.shape.groups());
    let estimates = Rows::new(estimates, many, scan.shape.vocabulary(), stride);
    let maxima = Rows::new(maxima, many, groups, groups);
    pool::run(supers.div_ceil(each), threads, &|task| {
        let range = task * each..((task + 1) * each).min(supers);
        // SAFETY: ranges of different tasks do not overlap, and each task runs once.
        let mut columns = unsafe { estimates.part(scan.columns(&range)) };
        // SAFETY: as above.
        let mut tops = unsafe { maxima.part(range.start * GROUPS..range.end * GROUPS) };
        scan.run(isa, range, &mut columns, &mut tops);
    });
}
