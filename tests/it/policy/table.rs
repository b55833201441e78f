//! `judgements.txt`: command lines with the judgement that they get.
use pausewatch::policy::{Decision, Rules};
use std::path::Path;

fn rules() -> Rules {
    Rules::load([Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/policy/table.rules")])
        .expect("the rules are right")
}

#[test]
fn command_lines_are_judged_as_the_table_says() {
    let rules = rules();
    let mut wrong = Vec::new();
    let mut count = 0;
    for row in include_str!("judgements.txt").lines().filter(|row| !row.is_empty() && !row.starts_with('#')) {
        let (expected, line) = row.split_once(' ').expect("a judgement and a line");
        let line = line
            .trim_start()
            .replace("\\\\n", "\\\n")
            .replace("\\n", "\n")
            .replace("\\t", "\t")
            .replace("\\u{a0}", "\u{a0}");
        let judgement = rules.judge(&line);
        let is = match (judgement.decision, &judgement.rule) {
            (None, _) => "sandbox",
            (Some(Decision::Allow), _) => "allow",
            (Some(Decision::Prompt), None) => "doubt",
            (Some(Decision::Prompt), Some(_)) => "prompt",
            (Some(Decision::Forbidden), _) => "forbidden",
        };
        count += 1;
        if is != expected {
            wrong.push(format!("{line:?} is {is}, not {expected}: {judgement:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 60, "the table was read: {count}");
}
