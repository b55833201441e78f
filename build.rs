//! Links the program at a fixed address: 0.8 MB less memory in each of its processes, of which there is one for each command of an exec
//! server, half a millisecond less to start it, and 1 MB less of file ("Memory and start" in
//! docs/decisions/0004-execs-judged-by-seccomp-notification.md). Libraries, stacks and heaps keep their random addresses.
use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found.split(',').any(|part| part == value));
    // A static program of musl is linked in another way.
    if is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && !is("CARGO_CFG_TARGET_FEATURE", "crt-static")
    {
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}
