//! The program `pausewatch`. Everything it does is in [`pausewatch::cli`].
use std::process::ExitCode;

fn main() -> ExitCode {
    pausewatch::cli::main()
}
