//! The parser of `entry_points.txt`.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use vplug_rs::entry_points::parse;

#[allow(dead_code, reason = "shared by all benches, each of which uses a part")]
#[allow(
    clippy::allow_attributes,
    reason = "where every part is used, an expectation would fail"
)]
mod synthetic;

fn entry_points(criterion: &mut Criterion) {
    let mut benches = criterion.benchmark_group("entry_points");
    for lines in [2, 100, 10_000] {
        let text = synthetic::entry_points("project", lines);
        assert_eq!(parse(&text).len(), lines + 1);
        benches.throughput(Throughput::Bytes(text.len() as u64));
        benches.bench_with_input(BenchmarkId::from_parameter(lines), &text, |bencher, text| {
            bencher.iter(|| parse(black_box(text)).len());
        });
    }
    benches.finish();
}

criterion_group!(benches, entry_points);
criterion_main!(benches);
