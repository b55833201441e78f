//! Links the program at a fixed address. That saves 0.8 MB of memory in each of its processes (an exec server has one
//! for each command), half a millisecond of each start, and 1 MB of the file ("Memory and start" in
//! docs/decisions/0004-execs-judged-by-seccomp-notification.md). Libraries, stacks and heaps keep their random
//! addresses.
use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found.split(',').any(|part| part == value));
    // A static program with musl is linked differently.
    if is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && !is("CARGO_CFG_TARGET_FEATURE", "crt-static")
    {
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}
