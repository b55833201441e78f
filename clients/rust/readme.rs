// Runs one function of the pages: test-readme puts this in front of a `match` of their names.
use pausewatch::client::Client;
use pausewatch::stopwatch::StopwatchController;
use std::process::ExitStatus;
use tokio::process::Command;

/// What a function of a page returns if all went well.
trait Good {
    fn is_good(&self) -> bool;
}

/// The answer of test-readme to the question.
impl Good for bool {
    fn is_good(&self) -> bool {
        *self
    }
}

impl Good for ExitStatus {
    fn is_good(&self) -> bool {
        self.success()
    }
}

/// `None`: the command ran into its limit.
impl Good for Option<ExitStatus> {
    fn is_good(&self) -> bool {
        self.is_some_and(|status| status.success())
    }
}

fn check(name: &str, result: Result<impl Good, impl std::fmt::Display>) {
    match result {
        Ok(value) => assert!(value.is_good(), "{name}: another result was expected"),
        Err(error) => panic!("{name}: {error}"),
    }
}
