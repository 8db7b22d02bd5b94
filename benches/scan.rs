//! A whole site in one pass: nothing remembered, and again with the memo.

#![expect(clippy::expect_used, reason = "a bench without its site has nothing to measure")]

use std::ffi::OsString;
use std::hint::black_box;
use std::thread::sleep;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use vplug_rs::memo::Scanner;

#[allow(dead_code, reason = "shared by all benches, each of which uses a part")]
#[allow(
    clippy::allow_attributes,
    reason = "where every part is used, an expectation would fail"
)]
mod synthetic;

const SIZES: [usize; 3] = [10, 300, 1000];

fn count(scanner: &Scanner, paths: &[OsString], group: Option<&str>) -> usize {
    let mut found = 0;
    scanner.scan(paths).entry_points(group, None, false, |_, _| found += 1);
    found
}

fn scan(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for size in SIZES {
        synthetic::build(&folder.path().join(size.to_string()), size).expect("a site");
    }
    sleep(synthetic::SETTLE);
    for (title, kept) in [("scan/first", false), ("scan/later", true)] {
        let mut benches = criterion.benchmark_group(title);
        for size in SIZES {
            let paths = [folder.path().join(size.to_string()).into_os_string()];
            let with_entry_points = (0..size).filter(|number| number % 10 < 3).count();
            assert_eq!(
                count(&Scanner::default(), &paths, Some(synthetic::GROUP)),
                with_entry_points
            );
            let scanner = Scanner::default();
            benches.throughput(Throughput::Elements(size as u64));
            benches.bench_with_input(BenchmarkId::from_parameter(size), &paths, |bencher, paths| {
                bencher.iter(|| {
                    if !kept {
                        scanner.clear();
                    }
                    count(&scanner, black_box(paths), Some(synthetic::GROUP))
                });
            });
        }
        benches.finish();
    }
}

criterion_group!(benches, scan);
criterion_main!(benches);
