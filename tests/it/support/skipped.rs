//! Tests that need something that a machine may lack.
use std::{env, fmt::Display, io::Write};

/// Reports that the running test is skipped because the machine lacks `what`, and why.
///
/// With `CI=true`, that is a failure, unless `PAUSEWATCH_CI_LACKS` lists `what`: `.ci/run` sets it to what it cannot
/// install, and prints the list.
pub(crate) fn skipped(what: &str, why: impl Display) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    // Written directly to standard error, because the test runner hides the output of tests that pass.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {what}: {why}");
    let lacks = env::var("PAUSEWATCH_CI_LACKS").unwrap_or_default();
    let is_ci = env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(!is_ci || lacks.split_whitespace().any(|lacking| lacking == what), "CI lacks {what}: {why}");
}
