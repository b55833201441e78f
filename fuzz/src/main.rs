//! libFuzzer in front of the targets of `tests/it/bad_input/`. `PAUSEWATCH_FUZZ_TARGET` names the target,
//! `PAUSEWATCH_FUZZ_CORPUS` the directory that its seeds are put into.
#![no_main]
#![allow(dead_code)] // Of what the tests share, this needs a part.

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

/// Puts the seeds where libFuzzer looks for inputs.
fn prepare() {
    // The default of libFuzzer's binding ends the process at a panic, but the store has a right to catch those of its
    // database. What is not caught ends the process all the same.
    let _ = std::panic::take_hook();
    let Some(directory) = std::env::var_os("PAUSEWATCH_FUZZ_CORPUS").map(std::path::PathBuf::from) else { return };
    for (i, seed) in (TARGET.seeds)().into_iter().enumerate() {
        std::fs::write(directory.join(format!("seed-{i}")), seed).expect("the corpus can be written");
    }
}

fuzz_target!(init: prepare(), |input: &[u8]| (TARGET.check)(input));
