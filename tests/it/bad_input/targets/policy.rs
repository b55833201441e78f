//! Command lines: a forbidden command is found, whatever surrounds it.
//!
//! Here the lines are built so that they certainly run it; `tests/it/policy.rs` asks bash.
use pausewatch::exec::policy::{Decision, Rules};
use std::sync::LazyLock;

/// Allows the commands in the seeds, so that only `rm` makes a difference.
static RULES: LazyLock<Rules> = LazyLock::new(|| {
    let rules = "prefix_rule([['ls', 'cat', 'echo', 'git', 'env', 'xargs', 'find', 'bash', 'true', 'x', 'a', 'f', 'eval', 'time']])\n\
                 prefix_rule(['rm'], decision = 'forbidden')";
    Rules::parse("fuzz.rules", rules).expect("they are right")
});

pub(super) fn check(input: &[u8]) {
    let Ok(line) = std::str::from_utf8(input) else { return };
    let judge = |line: &str| RULES.judge(line);
    let stopped = |line: &str| {
        let judgement = judge(line);
        assert!(judgement.decision >= Some(Decision::Prompt), "{line:?}: {judgement:?}");
    };
    // bash runs a line before it reads the next one.
    stopped(&format!("rm x\n{line}"));
    let judgement = judge(line);
    assert_eq!(judgement, judge(line), "the same line is judged the same way again");
    assert!(judgement.decision != Some(Decision::Allow) || judgement.uncertain.is_none());
    if judgement.uncertain.is_some() {
        return;
    }
    // A line that is understood ends at its newline; the parser does not swallow what follows.
    stopped(&format!("{line}\nrm x"));
    // The same line is judged the same way at any position.
    if judgement.decision == Some(Decision::Forbidden) {
        stopped(&format!("({line}\n)"));
        stopped(&format!("if ls; then {line}\nfi"));
        stopped(&format!("echo \"$({line}\n)\""));
        stopped(&format!("bash -c '{}'", line.replace('\'', r"'\''")));
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let table = include_str!("../../policy/judgements.txt").lines();
    let lines = table.filter_map(|row| row.split_once("  ")).map(|(_, line)| line.trim_start().replace("\\n", "\n"));
    lines.map(String::into_bytes).collect()
}
