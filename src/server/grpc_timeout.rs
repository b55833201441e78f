//! The deadline of a call, which its client sends in the header `grpc-timeout` (grpc.io, "gRPC over HTTP2"): up to
//! eight digits and a unit.
use std::time::Duration;
use tonic::codegen::http::HeaderMap;

/// The most digits that the protocol allows.
const DIGITS: usize = 8;

/// The timeout in the headers. `None`: there is none; an invalid header is ignored.
pub(super) fn of(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let unit = text.len().checked_sub(1)?;
    let (digits, unit) = text.split_at_checked(unit)?;
    if digits.is_empty() || digits.len() > DIGITS || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(number * 3_600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_digits_and_a_unit() {
        let of = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", text.parse().expect("it is valid"));
            of(&headers)
        };
        assert_eq!(of("3S"), Some(Duration::from_secs(3)));
        assert_eq!(of("1H"), Some(Duration::from_secs(3_600)));
        assert_eq!(of("2M"), Some(Duration::from_secs(120)));
        assert_eq!(of("00000250m"), Some(Duration::from_millis(250)));
        assert_eq!((of("7u"), of("7n")), (Some(Duration::from_micros(7)), Some(Duration::from_nanos(7))));
        assert_eq!(of("99999999H"), Some(Duration::from_secs(99_999_999 * 3_600)));
        for wrong in ["", "S", "3", "-1S", "+1S", "1.5S", "3 S", "123456789S", "3s", "3\u{e9}"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
