//! The parsers on arbitrary input: none may panic, and what they claim about their input must hold.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use vplug_rs::diagnostic::excerpt;
use vplug_rs::entry_points::{Parsed, parse};
use vplug_rs::import_names::{self, Rules};
use vplug_rs::metadata::{self, First, Outcome};
use vplug_rs::name::{NormalizedName, split_folder_name};
use vplug_rs::pure_path::pure_path;
use vplug_rs::record;
use vplug_rs::reference::{is_strict, parse_compatible};
use vplug_rs::{python_text, version_order};

const SUFFIXES: [&str; 5] = [".py", ".pyc", ".cpython-312-x86_64-linux-gnu.so", ".abi3.so", ".so"];

/// Unoptimised code is some thirty times slower, and the machine may be busy.
const CASES: u32 = if cfg!(debug_assertions) { 200 } else { 2000 };
const LINES: usize = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };

/// Texts made of what the grammars care about, so that the rare paths are met often.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        8 => "[a-cA-C._-]{1,3}",
        6 => prop::sample::select(vec!["\n", "\r\n", "\r", "=", "[", "]", ",", "\"", "\"\"", "/", ":", " ", "\t", "#"]).prop_map(String::from),
        2 => prop::sample::select(vec!["[g]\n", "a = b:c\n", "p/x.py,sha256=x,1\n", "./", "../", "//", ".py", "Name: x\n"]).prop_map(String::from),
        1 => prop::sample::select(vec!["\u{b}", "\u{c}", "\u{1c}", "\u{1f}", "\u{85}", "\u{2028}", "\u{feff}", "\0", "é", "From "]).prop_map(String::from),
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        text().prop_map(String::into_bytes),
        (text(), prop::collection::vec(any::<u8>(), 0..8)).prop_map(|(text, tail)| [text.into_bytes(), tail].concat()),
        prop::collection::vec(any::<u8>(), 0..200),
    ]
}

/// `Sectioned` as its specification reads, without any of the parser's short cuts.
fn sectioned(text: &str) -> Option<Vec<(String, String, String)>> {
    let mut group = None;
    let mut found = Vec::new();
    for line in text.split(['\n', '\r']) {
        let line = line.trim_matches([' ', '\t']);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with('[') && line.ends_with(']') {
            group = Some(line.trim_matches(['[', ']']));
        } else if let Some(group) = group {
            let (name, value) = line.split_once('=')?;
            let trim = |part: &str| part.trim_matches([' ', '\t']).to_owned();
            found.push((trim(name), trim(value), group.to_owned()));
        }
    }
    Some(found)
}

proptest! {
    // A failing input becomes a named test by hand, no file of seeds.
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_parser_panics_on_any_bytes(bytes in bytes()) {
        let lossy = String::from_utf8_lossy(&bytes).into_owned();
        if let Ok(parsed) = Parsed::from_bytes(bytes.clone()) {
            let _ = parsed.reference_faults();
        }
        for strict in [true, false] {
            let _ = metadata::parse(&bytes, strict);
            let _ = metadata::first(&bytes, "name", strict);
            let _ = metadata::first(&bytes, "Description", strict);
        }
        let _ = metadata::message(&bytes);
        let _ = (record::rows(&lossy), record::rows_mended(&lossy), record::sources(&lossy));
        let _ = (import_names::top_level_txt(&lossy), pure_path(&lossy));
        for generation in 11..=13 {
            for mended in [true, false] {
                let rules = Rules { generation, suffixes: &SUFFIXES, mended };
                let _ = import_names::top_level(&lossy, rules, |path| path.len().is_multiple_of(2));
            }
        }
        let _ = (NormalizedName::new(&lossy), split_folder_name(&lossy));
        let _ = (parse_compatible(&lossy), is_strict(&lossy), excerpt(&lossy));
        let _ = version_order::higher(&lossy, "1.0");
    }

    #[test]
    fn a_standard_text_has_the_entries_of_the_plain_grammar(text in text()) {
        let parsed = parse(&text);
        if parsed.standard() {
            let found: Vec<_> = parsed
                .entries()
                .map(|entry| (entry.name.to_owned(), entry.value.to_owned(), entry.group.to_owned()))
                .collect();
            prop_assert_eq!(Some(found), sectioned(&text));
        } else {
            let odd = !text.is_ascii() || text.bytes().any(|byte| matches!(byte, 0x0b | 0x0c | 0x1c..=0x1f));
            prop_assert!(odd || sectioned(&text).is_none(), "not standard without a reason");
        }
    }

    #[test]
    fn the_entries_of_one_group_are_those_that_name_it(text in text()) {
        let parsed = parse(&text);
        for group in parsed.groups() {
            let all: Vec<_> = parsed.entries().filter(|entry| entry.group == group).collect();
            prop_assert_eq!(parsed.entries_of(group).collect::<Vec<_>>(), all);
        }
    }

    #[test]
    fn line_numbers_point_at_the_lines(text in text()) {
        let editor: Vec<_> = python_text::plain_lines(&text).map(|line| line.text).collect();
        for entry in parse(&text).entries() {
            prop_assert!(editor[entry.line as usize - 1].contains(entry.value));
        }
        for line in python_text::lines(&text) {
            prop_assert!(editor[line.number as usize - 1].contains(line.text));
            prop_assert_eq!(&text[line.start..line.start + line.text.len()], line.text);
        }
    }

    #[test]
    fn one_field_is_the_first_of_all_fields(bytes in bytes()) {
        for strict in [true, false] {
            let Outcome::Plain(headers) = metadata::parse(&bytes, strict) else {
                prop_assert_eq!(metadata::first(&bytes, "name", strict), First::Odd);
                continue;
            };
            for (name, _) in &headers {
                let all = headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
                let expected = all.map(|(_, value)| First::Found(value.clone()));
                prop_assert_eq!(Some(metadata::first(&bytes, name, strict)), expected);
            }
        }
    }

    #[test]
    fn reading_mended_changes_nothing_where_strict_has_an_answer(bytes in bytes()) {
        if let Outcome::Plain(strict) = metadata::parse(&bytes, true) {
            prop_assert_eq!(metadata::parse(&bytes, false), Outcome::Plain(strict));
        }
        let text = String::from_utf8_lossy(&bytes);
        if let Some(rows) = record::rows(&text) {
            prop_assert_eq!(record::rows_mended(&text), (rows, vec![]));
        }
        for generation in 11..=13 {
            let rules = |mended| Rules { generation, suffixes: &SUFFIXES, mended };
            if let Some(names) = import_names::top_level(&text, rules(false), |path| path.len().is_multiple_of(2)) {
                prop_assert_eq!(import_names::top_level(&text, rules(true), |path| path.len().is_multiple_of(2)), Some(names));
            }
        }
    }

    #[test]
    fn skipping_known_folders_changes_no_name(text in text(), rest in text()) {
        let text = format!("b/x.py,,\n{text}\nb/{rest}\nb/{text}");
        for generation in 11..=13 {
            let rules = Rules { generation, suffixes: &SUFFIXES, mended: false };
            let exists = |path: &str| path.len().is_multiple_of(2);
            let slow = record::rows(&text).and_then(|rows| {
                let mut names = Vec::new();
                for row in rows {
                    let alone = format!("\"{}\",,", row.path.replace('"', "\"\""));
                    for name in import_names::top_level(&alone, rules, exists)? {
                        if !names.contains(&name) {
                            names.push(name);
                        }
                    }
                }
                Some(names)
            });
            prop_assert_eq!(import_names::top_level(&text, rules, exists), slow);
        }
    }

    #[test]
    fn normalizing_twice_is_normalizing_once(name in text()) {
        let once = NormalizedName::new(&name);
        prop_assert_eq!(NormalizedName::new(once.as_str()), once);
    }

    #[test]
    fn a_strict_reference_is_a_compatible_one(value in "[a-c_1.: ,\\[\\]é-]{0,12}") {
        prop_assert!(!is_strict(&value) || parse_compatible(&value).is_some());
    }

    #[test]
    fn versions_are_ordered_the_same_from_both_sides(a in "[0-9a-c.!+-]{0,8}", b in "[0-9a-c.!+-]{0,8}") {
        prop_assert_eq!(version_order::higher(&a, &b), version_order::higher(&b, &a).reverse());
    }
}

/// Far above what a busy machine needs for a linear pass (about 1 s), far below what a quadratic one takes.
const PATIENCE: Duration = Duration::from_secs(60);

fn in_time(what: &str, work: impl FnOnce()) {
    let begin = Instant::now();
    work();
    let spent = begin.elapsed();
    assert!(spent < PATIENCE, "{what} took {spent:?}");
}

#[test]
fn very_long_files_take_linear_time() {
    let count = LINES;
    let lines = |line: fn(usize) -> String| {
        (0..count).fold(String::new(), |mut text, number| {
            let _ = writeln!(text, "{}", line(number));
            text
        })
    };
    let sections = lines(|number| format!("[g{number}]"));
    in_time("sections", || assert_eq!(parse(&sections).groups().len(), count));
    let entries = lines(|number| format!("e{number} = m:f")).replacen("e0", "[g]\ne0", 1);
    in_time("entries", || {
        let parsed = parse(&entries);
        assert_eq!(parsed.entries_of("g").count(), count);
        assert!(parsed.reference_faults().is_empty());
    });
    let fields = lines(|_| " continued".to_owned()).replacen(" c", "Name: c", 1);
    in_time("a header of many lines", || {
        assert!(matches!(
            metadata::first(fields.as_bytes(), "name", true),
            First::Found(_)
        ));
    });
    let rows = lines(|number| format!("f{number}/x.py,sha256=x,{number}"));
    let rules = Rules {
        generation: 13,
        suffixes: &SUFFIXES,
        mended: false,
    };
    in_time("rows", || {
        assert_eq!(record::rows(&rows).map(|rows| rows.len()), Some(count));
    });
    in_time("import names", || {
        assert_eq!(
            import_names::top_level(&rows, rules, |_| true).map(|names| names.len()),
            Some(count)
        );
    });
    let quotes = "\"\"".repeat(count);
    in_time("quotes", || assert_eq!(record::rows(&quotes), None));
    let brackets = format!("a:b {}", "[x]".repeat(count));
    in_time("brackets", || assert!(parse_compatible(&brackets).is_some()));
}

#[test]
fn a_parsed_file_costs_little_more_than_its_text() {
    // A row is six numbers: the parser keeps no string of its own for an entry.
    let text = format!("[console_scripts]\n{}", "name = module:function\n".repeat(1000));
    let parsed = parse(&text);
    let first = parsed.entries().next().map(|entry| entry.value.as_ptr() as usize);
    let last = parsed.entries().last().map(|entry| entry.value.as_ptr() as usize);
    let spread = last.zip(first).map(|(last, first)| last - first);
    assert_eq!(
        spread,
        Some(999 * "name = module:function\n".len()),
        "values are slices of one text"
    );
}
