//! The messages of clap: wrong usage, `--help` and `--version`.
use super::exit::FAILED;
use super::failure::{Failure, say};
use super::output::check_open;
use std::io::ErrorKind;
use std::process::ExitCode;

/// Prints a message of clap and returns `code`, or 0 if the message is the output of `--help` or `--version`.
pub(crate) fn exit_code(error: &clap::Error, code: u8) -> ExitCode {
    if error.use_stderr() {
        let _ = error.print();
        return ExitCode::from(code);
    }
    let printed = check_open()
        .and_then(|()| error.print().map_err(|why| Failure::System("write to standard output".into(), why)));
    match printed {
        Err(Failure::System(_, why)) if why.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            say("help", &why.to_string());
            ExitCode::from(FAILED)
        }
    }
}
