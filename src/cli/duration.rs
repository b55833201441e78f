//! Durations on the command line, and as text for people.
use crate::core::types::{MAX_TTL, MIN_TTL};
use std::time::Duration;

/// The longest duration that is accepted, 3 million years: longer than any limit, and within the range of every clock.
const MAX: Duration = Duration::from_secs(100_000_000_000_000);
const EXPECTED: &str = "expected a number and ms, s, m, h or d, such as 30s";

/// Parses a number with a unit: ms, s (the default), m, h or d. Fractions are allowed, negative numbers are not.
pub fn parse(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let factor = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return Err(EXPECTED.into()),
    };
    let number: f64 = number.parse().map_err(|_| EXPECTED)?;
    let why = if number < 0.0 { "it is negative" } else { "it is too long" };
    let duration = Duration::try_from_secs_f64(number * factor).ok().filter(|duration| *duration <= MAX);
    duration.ok_or_else(|| format!("{why}; {EXPECTED}"))
}

/// Parses the length of a lease: 1 s to 24 h.
pub fn parse_ttl(text: &str) -> Result<Duration, String> {
    let ttl = parse(text)?;
    (MIN_TTL..=MAX_TTL).contains(&ttl).then_some(ttl).ok_or_else(|| "a lease is 1s to 24h".into())
}

/// Parses the length of a lease, or 0 for no lease.
pub(crate) fn parse_lease(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Ok(Duration::ZERO),
        _ => parse_ttl(text).map_err(|why| format!("{why}, or 0 for none")),
    }
}

/// Parses the maximum length of a pause: at least the shortest lease, or 0 for none.
pub(crate) fn parse_max_pause(text: &str) -> Result<Duration, String> {
    let max_pause = parse(text)?;
    let is_valid = max_pause.is_zero() || max_pause >= MIN_TTL;
    is_valid.then_some(max_pause).ok_or_else(|| "a pause is 1s or longer, or 0 for no maximum".into())
}

/// Parses how long a token is valid.
pub(crate) fn parse_validity(text: &str) -> Result<Duration, String> {
    let ttl = parse(text)?;
    (!ttl.is_zero()).then_some(ttl).ok_or_else(|| "the token would never be valid".into())
}

/// The two largest units; tenths below ten seconds.
pub fn show(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("{}.{}s", seconds, duration.subsec_millis() / 100),
        10..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_is_a_number_and_a_unit() {
        for (text, ms) in [
            ("30s", 30_000),
            ("30", 30_000),
            ("1.5m", 90_000),
            ("250ms", 250),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            ("0", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for bad in ["", "s", "-1s", "1w", "1 s", "inf", "NaN", "1e400", "1s1"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        for (text, why) in [
            ("-1s", "it is negative; "),
            ("999999999999999999999d", "it is too long; "),
            ("2e14s", EXPECTED),
            ("200000000000000s", "it is too long; "),
        ] {
            assert!(parse(text).is_err_and(|error| error.starts_with(why)), "{text}");
        }
    }

    #[test]
    fn lease_is_1_s_to_24_h_or_none() {
        assert!(parse_ttl("1s").is_ok() && parse_ttl("24h").is_ok() && parse_lease("0").is_ok());
        assert!(parse_ttl("0").is_err() && parse_ttl("999ms").is_err() && parse_lease("25h").is_err());
    }

    #[test]
    fn duration_is_shown_in_its_two_largest_units() {
        for (seconds, shown) in
            [(0.25, "0.2s"), (9.99, "9.9s"), (59.0, "59s"), (61.0, "1m01s"), (7_260.0, "2h01m"), (90_000.0, "1d01h")]
        {
            assert_eq!(show(Duration::from_secs_f64(seconds)), shown);
        }
    }
}
