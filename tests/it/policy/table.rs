//! `judgements.txt`: command lines with their judgements.
use crate::program::assert_snapshot;
use pausewatch::exec::policy::{Decision, Judgement, Rules};
use std::path::Path;

fn rules() -> Rules {
    Rules::load([Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/policy/table.rules")])
        .expect("the rules are right")
}

/// A judgement in the terms of the table.
pub(super) fn outcome(judgement: &Judgement) -> &'static str {
    match (judgement.decision, &judgement.rule) {
        (None, _) => "sandbox",
        (Some(Decision::Allow), _) => "allow",
        (Some(Decision::Prompt), None) => "doubt",
        (Some(Decision::Prompt), Some(_)) => "prompt",
        (Some(Decision::Forbidden), _) => "forbidden",
    }
}

/// The command line as the table writes it.
fn line_of(text: &str) -> String {
    let line = text.replace("\\\\n", "\\\n").replace("\\n", "\n").replace("\\t", "\t");
    line.replace("\\u{d}", "\r").replace("\\u{a0}", "\u{a0}").replace("\\u{101}", "\u{101}")
}

/// The command lines of the table.
pub(super) fn lines() -> impl Iterator<Item = String> {
    let rows = include_str!("judgements.txt").lines().filter(|row| !row.is_empty() && !row.starts_with('#'));
    rows.filter_map(|row| row.split_once(' ')).map(|(_, text)| line_of(text.trim_start()))
}

#[test]
fn command_lines_are_judged_as_the_table_says() {
    let rules = rules();
    let mut table = String::new();
    for row in include_str!("judgements.txt").lines() {
        if row.is_empty() || row.starts_with('#') {
            table += &format!("{row}\n");
            continue;
        }
        let (expected, text) = row.split_once(' ').expect("a judgement and a line");
        let text = text.trim_start();
        let judgement = rules.judge(&line_of(text));
        let is_stopped = judgement.decision >= Some(Decision::Prompt);
        let is = if expected == "stopped" && is_stopped { expected } else { outcome(&judgement) };
        table += &format!("{is:<10} {text}\n");
    }
    assert!(table.lines().count() >= 600, "the table has only {} lines", table.lines().count());
    assert_snapshot("../policy/judgements.txt", &table);
}

#[test]
fn a_line_of_any_shape_is_judged_and_a_long_one_is_a_doubt() {
    let rules = rules();
    let full = |part: &str, end: &str| {
        part.repeat(8_000 / (part.len() + end.len())) + &end.repeat(8_000 / (part.len() + end.len()))
    };
    for (part, end) in [
        ("$(", ")"),
        ("\"$(", ")\""),
        ("(", ")"),
        ("((", "))"),
        ("{ ", "; }"),
        ("ls && ", ""),
        ("ls | ", ""),
        ("ls; ", ""),
        ("ls\n", ""),
        ("if ls; then ", "; fi"),
        ("${x:-", "}"),
        ("$((", "))"),
        ("[[ ", " ]]"),
        ("[", "]"),
        ("<(", ")"),
        ("`", ""),
        ("\"", ""),
        ("'", ""),
        ("\\", ""),
        ("cat <<E\n", "E\n"),
        ("cat <<E\nE\n", ""),
        ("x=", ""),
        ("a ", ""),
        ("{a,", "}"),
        ("case x in x) ", ";; esac;"),
        ("f() { ", "; }"),
        ("# ", ""),
        ("! ", ""),
        (">x ", ""),
        ("eval ", ""),
        ("sudo ", ""),
        ("bash -c ", ""),
        ("a{", "}"),
        ("${", ""),
        ("$[", "]"),
        ("&&", ""),
        (";;", ""),
        (")", ""),
    ] {
        let line = full(part, end);
        let judgement = rules.judge(&line);
        assert_ne!(judgement.decision, Some(Decision::Forbidden), "{part:?}");
    }
    let long = rules.judge(&"ls;".repeat(30_000));
    assert_eq!(long.decision, Some(Decision::Prompt), "{long}");
}
