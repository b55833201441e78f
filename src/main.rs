//! The program `pausewatch`. Everything it does is in [`pausewatch::cli`].
use std::process::ExitCode;

/// A call allocates and frees about thirty times: with the allocator of the C library that is a fifth of its CPU.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs before Rust's runtime, which ignores SIGPIPE and opens closed standard streams (docs/decisions/0003-record-before-main.md).
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the attribute promises that the section holds such functions")]
#[unsafe(link_section = ".init_array")]
#[used]
static RECORD_START: extern "C" fn() = pausewatch::cli::record_start;

fn main() -> ExitCode {
    pausewatch::cli::main()
}
