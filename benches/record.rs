//! RECORD: its rows, and the import names that are inferred from it.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use vplug_rs::import_names::{Rules, top_level};
use vplug_rs::record::rows;

#[allow(dead_code, reason = "shared by all benches, each of which uses a part")]
#[allow(
    clippy::allow_attributes,
    reason = "where every part is used, an expectation would fail"
)]
mod synthetic;

const LINES: usize = 5000;

fn record(criterion: &mut Criterion) {
    let text = synthetic::record("project", LINES);
    let rules = |generation| Rules {
        generation,
        suffixes: &[".py", ".pyc", ".so"],
        mended: true,
    };
    assert_eq!(rows(&text).map(|found| found.len()), Some(LINES));
    assert_eq!(
        top_level(&text, rules(12), |_| true),
        Some(vec![Some("project".to_owned())])
    );
    let mut benches = criterion.benchmark_group("record");
    benches.throughput(Throughput::Elements(LINES as u64));
    benches.bench_function("rows", |bencher| {
        bencher.iter(|| rows(black_box(&text)).map(|found| found.len()));
    });
    for generation in [11, 12] {
        benches.bench_function(format!("top level, Python 3.{generation}"), |bencher| {
            bencher.iter(|| top_level(black_box(&text), rules(generation), |_| true));
        });
    }
    benches.finish();
}

criterion_group!(benches, record);
criterion_main!(benches);
