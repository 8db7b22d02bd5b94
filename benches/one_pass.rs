//! Times passes over one folder, nothing remembered, for benches/python/floor.py, which compares it with the same
//! system calls made from C. Prints one JSON object; times are microseconds of one pass.
//!
//! `one_pass FOLDER PASSES`

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program, not the library")]

use std::ffi::OsString;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use vplug_rs::memo::Scanner;
use vplug_rs::scan::Inventory;

fn pass(paths: &[OsString]) -> (f64, usize, usize) {
    let start = Instant::now();
    let inventory = Scanner::default().scan(paths);
    let mut found = 0;
    inventory.entry_points(Some("vllm.general_plugins"), None, false, |_, _| found += 1);
    let microseconds = start.elapsed().as_secs_f64() * 1e6;
    black_box(found);
    (microseconds, inventory.rows.len(), files(&inventory))
}

fn files(inventory: &Inventory) -> usize {
    inventory
        .rows
        .iter()
        .filter(|row| inventory.points(row).is_some_and(|file| file.parsed().is_some()))
        .count()
}

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).filter(|word| word != "--bench").collect();
    let [folder, passes] = words.as_slice() else {
        eprintln!("usage: one_pass FOLDER PASSES");
        // `cargo bench` and `cargo test --benches` start every bench without words
        return if words.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(2)
        };
    };
    let Some(passes) = passes
        .to_str()
        .and_then(|text| text.parse::<usize>().ok())
        .filter(|count| *count > 0)
    else {
        eprintln!("PASSES is a number from 1");
        return ExitCode::from(2);
    };
    let paths = [folder.clone()];
    let seen: Vec<_> = (0..passes).map(|_| pass(&paths)).collect();
    let mut times: Vec<f64> = seen.iter().map(|one| one.0).collect();
    let (first, distributions, files) = seen[0];
    times.sort_by(f64::total_cmp);
    println!(
        "{{\"distributions\":{distributions},\"files\":{files},\"first_us\":{first:.1},\"median_us\":{:.1},\"min_us\":{:.1}}}",
        times[passes / 2],
        times[0]
    );
    ExitCode::SUCCESS
}
