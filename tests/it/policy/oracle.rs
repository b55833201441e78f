//! Compares what bash runs with the judgement: lines from a grammar, with programs that only record that they were run.
//!
//! bash runs in the sandbox, with only such programs in its `PATH`, so that no line can do harm.
//! `PAUSEWATCH_ORACLE_ROUNDS=N` tries more lines, `PAUSEWATCH_ORACLE_SEED=N` starts from another seed.
use super::grammar;
use crate::support::{sandboxed, skipped};
use fastrand::Rng;
use pausewatch::{
    exec::policy::{Decision, Judgement, Rules},
    test_support::sandbox::{Enforcement, Sandbox},
};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Stdio,
};

/// Everything except `rm` is allowed, so an `rm` that is overlooked is allowed.
const RULES: &str = "
prefix_rule([[
    'ls', 'git', 'echo', 'cat', 'true', 'test', 'env', 'nice', 'nohup', 'timeout', 'command', 'exec', 'xargs', 'builtin', 'stdbuf', 'setsid', 'find',
    'bash', 'sh', 'eval', 'trap', 'time', 'f', 'break', 'x', 'a', 'b', 'rmx', 'set', 'read', 'printf', 'mapfile', 'getopts', 'wait', 'jobs', ':', '[',
    'declare', 'export', 'readonly', 'typeset', 'local',
]])
prefix_rule(['rm'], decision = 'forbidden')
";
/// Programs that run others are real.
const REAL: [&str; 10] = ["env", "nice", "nohup", "timeout", "xargs", "stdbuf", "setsid", "find", "bash", "sh"];
/// All other programs record their names, if they are forbidden, and print something for their readers.
const DRIVER: &str = r#"
cd "$1" && PATH=$2
for line in "$3"/*; do
    NOTES=$4/${line##*/} /usr/bin/timeout -s KILL 2 /usr/bin/bash -c "ulimit -t 1 -f 1000; exec /usr/bin/bash -c \"\$1\"" - "$(<"$line")" </dev/null >/dev/null 2>&1
done
"#;

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(|path| path.is_file())
}

/// Creates the programs that the lines can find.
fn stage(bin: &Path) -> Option<()> {
    fs::create_dir(bin).unwrap();
    for program in REAL {
        symlink(find(program)?, bin.join(program)).unwrap();
    }
    for program in ["ls", "git", "cat", "rm"] {
        let note = if program == "rm" { "echo \"$*\" >> \"$NOTES\"\n" } else { "" };
        fs::write(bin.join(program), format!("#!/bin/sh\n{note}echo x\n")).unwrap();
        fs::set_permissions(bin.join(program), fs::Permissions::from_mode(0o755)).unwrap();
    }
    Some(())
}

/// Whether each line runs `rm`.
fn run(lines: &[String]) -> Option<Vec<bool>> {
    let place = tempfile::tempdir().unwrap();
    let directory = |name: &str| place.path().join(name);
    for name in ["work", "lines", "notes"] {
        fs::create_dir(directory(name)).unwrap();
    }
    stage(&directory("bin"))?;
    symlink(directory("bin").join("rm"), directory("work").join("rm")).unwrap();
    // These are found if numbers or parts of assignments are mistaken for directories.
    for path in ["0/ls", "1/ls", "10/ls", "x/ls", "a=b/rm", "x+=/rm", "LANG=/rm"] {
        let link = directory("work").join(path);
        fs::create_dir(link.parent().expect("it has one")).unwrap();
        symlink(directory("bin").join("rm"), link).unwrap();
    }
    let sandbox = Sandbox::new([directory("work"), directory("notes")]);
    // First check that the sandbox works: otherwise the lines would reach this machine.
    let escape = format!("echo > {}", directory("escaped").display());
    let tried = sandboxed(&sandbox, "bash", ["-c", &escape]).output();
    assert!(
        !tried.expect("the program starts").status.success() && !directory("escaped").exists(),
        "the sandbox must refuse to write outside"
    );
    for (i, line) in lines.iter().enumerate() {
        fs::write(directory("lines").join(format!("{i:06}")), line).unwrap();
    }
    let arguments =
        ["-c", DRIVER, "driver"].map(PathBuf::from).into_iter().chain(["work", "bin", "lines", "notes"].map(directory));
    let mut command = sandboxed(&sandbox, "bash", arguments);
    command.stdin(Stdio::null());
    assert!(command.status().expect("the program starts").code().is_some());
    Some((0..lines.len()).map(|i| directory("notes").join(format!("{i:06}")).exists()).collect())
}

pub(super) fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn no_line_that_runs_a_forbidden_program_is_let_through() {
    let enforcement = Sandbox::probe();
    if enforcement != Enforcement::Full {
        return skipped("landlock", format!("random lines are not run without a sandbox, which is {enforcement}"));
    }
    if find("bash").is_none() {
        return skipped("bash", "it is not on PATH");
    }
    let rules = Rules::parse("oracle.rules", RULES).expect("they are right");
    let seed = number("PAUSEWATCH_ORACLE_SEED", 0);
    let count = number("PAUSEWATCH_ORACLE_ROUNDS", 200);
    let lines: Vec<_> = (seed..seed + count).map(|seed| grammar::line(&mut Rng::with_seed(seed as u64))).collect();
    let Some(ran) = run(&lines) else { return skipped("wrappers", "a program that runs other programs is missing") };
    let judged: Vec<Judgement> = lines.iter().map(|line| rules.judge(line.trim_end_matches('\n'))).collect();
    let mut through = Vec::new();
    for (i, (line, judgement)) in lines.iter().zip(&judged).enumerate() {
        if ran[i] && judgement.decision < Some(Decision::Prompt) {
            through.push(format!("seed {}: {line:?}\n    {judgement:?}", seed + i));
        }
    }
    let doubts = |ran_it: bool| (0..count).filter(|&i| ran[i] == ran_it && judged[i].uncertain.is_some()).count();
    let runs = ran.iter().filter(|ran| **ran).count();
    println!(
        "{count} lines, {runs} ran rm, {} of these not certain; of the others {} not certain",
        doubts(true),
        doubts(false)
    );
    assert!(through.is_empty(), "{} lines that run rm were allowed:\n{}", through.len(), through.join("\n"));
    assert!(runs * 10 > count, "at least a tenth of the lines must run rm");
}
