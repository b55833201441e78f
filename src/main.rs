//! The program `pausewatch`. Everything it does is in [`pausewatch::cli`].
use std::process::ExitCode;

/// A call allocates and frees some thirty times: with the C library's allocator that is a fifth of its CPU.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    pausewatch::cli::main()
}
