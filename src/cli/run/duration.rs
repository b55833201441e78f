//! Durations of GNU `timeout`: a number in the syntax of `strtod`, then at most one of `s`, `m`, `h`, `d`.
//!
//! 1. A value above the range, also `inf`, is [`Duration::MAX`]. A positive value below it is 1 ns, because zero means no
//!    limit.
use std::time::Duration;

/// Parses a duration.
///
/// # Errors
/// A message for the user: the text is not a duration, or it is negative.
pub fn parse(text: &str) -> Result<Duration, String> {
    seconds(text).ok_or_else(|| "invalid time interval; examples: 10, 2.5s, 1m, 0 (no limit)".to_owned())
}

fn seconds(text: &str) -> Option<Duration> {
    let number = text.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    let (number, unit) = match number.strip_suffix(['s', 'm', 'h', 'd']) {
        // A final `d` of a hexadecimal number is a digit, because strtod reads as much as it can.
        Some(_) if number.ends_with('d') && is_hexadecimal(number) && !number.contains(['p', 'P']) => (number, 1),
        Some(bare) => (bare, unit_of(number.as_bytes().last().copied())),
        None => (number, 1),
    };
    let (negative, digits) = match number.strip_prefix(['-', '+']) {
        Some(digits) => (number.starts_with('-'), digits),
        None => (false, number),
    };
    let value = if is_hexadecimal(digits) { hexadecimal(&digits[2..])? } else { decimal(digits)? };
    match value {
        Number::Zero => Some(Duration::ZERO),
        _ if negative => None,
        Number::Positive(value) => {
            let value = value * f64::from(unit);
            Some(Duration::try_from_secs_f64(value).unwrap_or(Duration::MAX).max(Duration::from_nanos(1)))
        }
    }
}

/// Separates zero from positive numbers that an `f64` rounds to zero.
enum Number {
    Zero,
    Positive(f64),
}

fn unit_of(suffix: Option<u8>) -> u32 {
    match suffix {
        Some(b'm') => 60,
        Some(b'h') => 60 * 60,
        Some(b'd') => 24 * 60 * 60,
        _ => 1,
    }
}

fn is_hexadecimal(text: &str) -> bool {
    let text = text.trim_start_matches(['-', '+']);
    text.starts_with("0x") || text.starts_with("0X")
}

/// Rust accepts the syntax of `strtod` in the C locale; signs and `nan` are refused here.
fn decimal(text: &str) -> Option<Number> {
    if text.starts_with(['-', '+']) {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    match value {
        value if value.is_nan() => None,
        0.0 if mantissa.bytes().all(|byte| matches!(byte, b'0' | b'.')) => Some(Number::Zero),
        value => Some(Number::Positive(value)),
    }
}

/// `text` is what follows `0x`: digits with at most one point, then perhaps `p` and a decimal power of two.
fn hexadecimal(text: &str) -> Option<Number> {
    let (digits, power) = match text.split_once(['p', 'P']) {
        // No number has so many digits that an exponent beyond i32 could make up for them.
        Some((digits, power)) => (digits, saturating(power)?),
        None => (text, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value = 0.0_f64;
    for digit in whole.chars().chain(fraction.chars()) {
        value = value * 16.0 + f64::from(digit.to_digit(16)?);
    }
    let power = i64::from(power) - 4 * i64::try_from(fraction.len()).ok()?;
    let power = i32::try_from(power.clamp(-100_000, 100_000)).ok()?;
    Some(if value == 0.0 { Number::Zero } else { Number::Positive(value * 2.0_f64.powi(power)) })
}

fn saturating(power: &str) -> Option<i32> {
    let digits = power.strip_prefix(['-', '+']).unwrap_or(power);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(power.parse().unwrap_or(if power.starts_with('-') { i32::MIN } else { i32::MAX }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_strtod_and_timeout_do() {
        let ms = Duration::from_millis;
        for (text, expected) in [
            ("1", ms(1000)),
            ("+1", ms(1000)),
            (" 1", ms(1000)),
            ("1.", ms(1000)),
            (".5", ms(500)),
            ("1e-1", ms(100)),
            ("1E+1s", ms(10_000)),
            ("0.5m", ms(30_000)),
            ("1h", ms(3_600_000)),
            ("2d", ms(2 * 86_400_000)),
            ("0x10", ms(16_000)),
            ("0X.8", ms(500)),
            ("0x1d", ms(29_000)),
            ("0x1ds", ms(29_000)),
            ("0x1.8p1d", ms(3 * 86_400_000)),
            ("0", Duration::ZERO),
            ("0.0d", Duration::ZERO),
            ("0e9", Duration::ZERO),
            ("-0", Duration::ZERO),
            ("0x0p9", Duration::ZERO),
            ("inf", Duration::MAX),
            ("INFINITYd", Duration::MAX),
            ("1e400", Duration::MAX),
            ("0x1p99999999999", Duration::MAX),
            ("99999999999999999999", Duration::MAX),
            ("1e-400", Duration::from_nanos(1)),
            ("0x1p-99999999999", Duration::from_nanos(1)),
            ("1e-10", Duration::from_nanos(1)),
        ] {
            assert_eq!(seconds(text), Some(expected), "{text:?}");
        }
    }

    #[test]
    fn invalid_durations_are_refused() {
        for text in [
            "", " ", ".", "+", "s", "1S", "1ms", "1ss", "1 ", "1 s", "1e", "1e5x", "1,5", "1_0", "-1", "-1e-400",
            "--1", "+-1", "- 1", "0x", "0xs", "0x1p", "0x1px", "0x1.2.3", "0x-1", "nan", "NaNs", "-nan", "0b1", "infx",
            "-inf", "1d1", "١",
        ] {
            assert_eq!(seconds(text), None, "{text:?}");
        }
    }
}
