//! Any input is either accepted correctly or refused; it never ends the program and is never accepted in part.
//!
//! Each target (`bad_input/targets/`) gets its seeds unchanged, then random changes of them. A failure prints the input
//! and how to run it alone: `PAUSEWATCH_BAD_INPUT_SEED=N` runs one seed, `PAUSEWATCH_BAD_INPUT_ROUNDS=N` the first N.
//! `fuzz/run` searches longer, guided by coverage.
mod targets;

use fastrand::Rng;
use targets::{TARGETS, Target};

fn env(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// Prints how to repeat a failure.
struct Failing<'a>(&'a str, String, &'a [u8]);

impl Drop for Failing<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Failing(target, again, input) = self;
            eprintln!("{target}: {:?}\nagain: {again}", String::from_utf8_lossy(input));
        }
    }
}

fn check(target: &Target, input: &[u8], again: String) {
    let _failing = Failing(target.name, again, input);
    (target.check)(input);
}

/// A seed with some changes, or random bytes.
fn input(rng: &mut Rng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = seeds[rng.usize(..seeds.len())].clone();
    if rng.u8(..16) == 0 {
        bytes = (0..rng.usize(..200)).map(|_| rng.u8(..)).collect();
    }
    for _ in 0..rng.usize(1..=4) {
        change(&mut bytes, rng, seeds);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, rng: &mut Rng, seeds: &[Vec<u8>]) {
    let at = rng.usize(..=bytes.len());
    let end = rng.usize(at..=bytes.len());
    match (rng.u8(..7), at < bytes.len()) {
        (0, true) => bytes[at] ^= 1 << rng.u8(..8),
        (1, true) => bytes[at] = *rng.choice(b"\0\x01\x7f\x80\xff\n \"-.09:/").expect("there are some"),
        (2, true) => bytes[at] = rng.u8(..),
        (3, true) => _ = bytes.drain(at..end),
        (4, _) => bytes.splice(at..at, bytes[at..end].to_vec()).for_each(drop),
        (5, _) => {
            let other = &seeds[rng.usize(..seeds.len())];
            let from = rng.usize(..=other.len());
            bytes.splice(at..at, other[from..rng.usize(from..=other.len())].to_vec()).for_each(drop);
        }
        _ => bytes.insert(at, rng.u8(..)),
    }
}

fn run(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("there is such a target");
    let seeds = (target.seeds)();
    let replay = env("PAUSEWATCH_BAD_INPUT_SEED");
    for (i, seed) in seeds.iter().enumerate().filter(|_| replay.is_none()) {
        check(target, seed, format!("seed {i} of the target"));
    }
    let rounds = match replay {
        Some(seed) => seed..seed + 1,
        None => 0..env("PAUSEWATCH_BAD_INPUT_ROUNDS").unwrap_or(target.rounds),
    };
    for round in rounds {
        let input = input(&mut Rng::with_seed(round), &seeds);
        let again = format!("PAUSEWATCH_BAD_INPUT_SEED={round} cargo test --test it bad_input::{name}");
        check(target, &input, again);
    }
}

#[test]
fn random_tokens_grant_no_access() {
    run("access");
}

#[test]
fn address_is_read_back_as_printed_or_refused() {
    run("address");
}

#[test]
fn audit_trail_is_told_as_whole_pauses_or_refused_by_the_line() {
    run("audit");
}

#[test]
fn bridge_changes_nothing_but_the_capability() {
    run("bridge");
}

#[test]
fn duration_is_never_below_zero_and_means_one_thing() {
    run("duration");
}

#[test]
fn hook_changes_a_command_by_its_first_line_and_its_timeout_only() {
    run("hook");
}

#[test]
fn http_changes_nothing_by_what_a_web_page_can_send() {
    run("http");
}

#[test]
fn pinentry_takes_a_question_from_its_command_to_its_answer_and_no_secret() {
    run("pinentry");
}

#[test]
fn config_is_taken_as_it_stands_or_refused_with_its_name() {
    run("config");
}

#[test]
fn wire_accepts_what_is_within_the_limits_and_nothing_else() {
    run("wire");
}

#[test]
fn store_gives_what_was_acknowledged_or_refuses_to_start() {
    run("store");
}

#[test]
fn policy_never_loses_a_forbidden_command() {
    run("policy");
}
