//! Runs libFuzzer on the targets of `tests/it/bad_input/`. `PAUSEWATCH_FUZZ_TARGET` names the target,
//! `PAUSEWATCH_FUZZ_CORPUS` the directory for its seeds.
#![no_main]
#![allow(dead_code)] // This needs only a part of what the tests share.

#[path = "../../tests/it/bad_input/targets/mod.rs"]
mod targets;

mod support;

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use targets::{TARGETS, Target};

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("PAUSEWATCH_FUZZ_TARGET").unwrap_or_default();
    TARGETS.iter().find(|target| target.name == name).unwrap_or_else(|| panic!("there is no target {name:?}"))
});

/// Writes the seeds to the directory from which libFuzzer reads inputs.
fn prepare() {
    // By default, libFuzzer's binding ends the process at any panic, but the store may catch panics of its database. A
    // panic that is not caught still ends the process.
    let _ = std::panic::take_hook();
    let Some(directory) = std::env::var_os("PAUSEWATCH_FUZZ_CORPUS").map(std::path::PathBuf::from) else { return };
    for (i, seed) in (TARGET.seeds)().into_iter().enumerate() {
        std::fs::write(directory.join(format!("seed-{i}")), seed).expect("the corpus can be written");
    }
}

fuzz_target!(init: prepare(), |input: &[u8]| (TARGET.check)(input));
