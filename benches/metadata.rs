//! The header parser of METADATA: one field, and all of them, in both readings.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use vplug_rs::metadata::{First, Outcome, first, parse};

#[allow(dead_code, reason = "shared by all benches, each of which uses a part")]
#[allow(
    clippy::allow_attributes,
    reason = "where every part is used, an expectation would fail"
)]
mod synthetic;

fn metadata(criterion: &mut Criterion) {
    let text = synthetic::metadata("project", 30, 20_000);
    let bytes = text.as_bytes();
    assert_eq!(first(bytes, "Version", true), First::Found("1.2.3".into()));
    assert!(matches!(parse(bytes, true), Outcome::Plain(headers) if headers.len() == 34));
    let mut benches = criterion.benchmark_group("metadata");
    benches.throughput(Throughput::Bytes(bytes.len() as u64));
    for (reading, strict) in [("mended", false), ("strict", true)] {
        benches.bench_function(format!("version, {reading}"), |bencher| {
            bencher.iter(|| first(black_box(bytes), "Version", strict));
        });
        benches.bench_function(format!("all, {reading}"), |bencher| {
            bencher.iter(|| parse(black_box(bytes), strict));
        });
    }
    benches.finish();
}

criterion_group!(benches, metadata);
criterion_main!(benches);
