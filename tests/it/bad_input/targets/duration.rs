//! Durations on the command line: those of GNU `timeout`, and those of our own options.
use pausewatch::test_support::cli::{parse_duration, parse_timeout_duration, parse_ttl, show_duration};
use pausewatch::test_support::core::types::{MAX_TTL, MIN_TTL};
use std::time::Duration;

pub(super) fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    check_gnu(text);
    check_ours(text);
}

fn check_gnu(text: &str) {
    let parse = |text: &str| parse_timeout_duration(text);
    let Ok(length) = parse(text) else { return };
    let bare = text.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    if bare.starts_with('-') {
        assert_eq!(length, Duration::ZERO, "{text:?} is negative");
    }
    // Other spellings of the same duration.
    assert_eq!(parse(&format!(" \t{text}")), Ok(length), "{text:?} after spaces");
    if !bare.starts_with(['+', '-']) {
        assert_eq!(parse(&format!("+{bare}")), Ok(length), "{text:?} with its sign");
        assert_eq!(parse(&format!("-{bare}")).ok(), length.is_zero().then_some(length), "{text:?} with a minus");
    }
    // A binary fraction has 53 bits: that is the error of a duration that was printed and parsed again.
    if length < Duration::MAX {
        let reparsed = parse(&format!("{}.{:09}", length.as_secs(), length.subsec_nanos())).expect("it is a number");
        let error = reparsed.abs_diff(length);
        assert!(error <= length / (1 << 30) / (1 << 20), "{text:?} is {length:?}, and parsed again {reparsed:?}");
    }
}

fn check_ours(text: &str) {
    if let Ok(length) = parse_duration(text) {
        assert!(!text.starts_with('-') || length.is_zero(), "{text:?} is negative");
        let shown = show_duration(length);
        assert!(shown.chars().all(|c| c.is_ascii_alphanumeric() || c == '.'), "{text:?}: {shown:?}");
    }
    let within = MIN_TTL..=MAX_TTL;
    assert_eq!(parse_ttl(text).ok(), parse_duration(text).ok().filter(|length| within.contains(length)));
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    super::texts(&[
        "10",
        "2.5s",
        "1m",
        "0",
        ".5",
        "1e-1",
        "1E+1s",
        "0x1.8p1d",
        "0X.8",
        "inf",
        "INFINITYd",
        "nan",
        "-0",
        "-1",
        "-1e-400",
        "1e400",
        "0x1p-99999999999",
        " +7h",
        "99999999999999999999d",
        "250ms",
        "1.5m",
        "-0ms",
        "24h",
        "1d",
    ])
}
