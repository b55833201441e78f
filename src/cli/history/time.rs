//! A time on the command line: how long ago, or when.
use crate::cli::duration;
use crate::core::Timestamp;
use jiff::tz::TimeZone;
use std::time::Duration;

/// A time that may depend on when the command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Time {
    Ago(Duration),
    At(jiff::Timestamp),
}

impl Time {
    /// Parses `2h`, `2026-11-21T22:30:00+01:00`, or, in the time zone of the reader, `2026-11-21 22:30:00` or `2026-11-21`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if let Ok(ago) = duration::parse(text) {
            return Ok(Time::Ago(ago));
        }
        if let Ok(at) = text.parse() {
            return Ok(Time::At(at));
        }
        let local = text.parse::<jiff::civil::DateTime>().and_then(|local| TimeZone::system().to_timestamp(local));
        let expected = "expected how long ago, such as 2h, or a time, such as 2026-11-21T22:30:00+01:00 or 2026-11-21";
        local.map(Time::At).map_err(|_| expected.into())
    }

    /// As a time of the proto. A time before its range becomes the earliest one.
    pub(super) fn at(self, now: Timestamp) -> prost_types::Timestamp {
        const FIRST: jiff::Timestamp = jiff::Timestamp::constant(-62_135_596_800, 0);
        let at = match self {
            Time::At(at) => at,
            Time::Ago(ago) => {
                let now = jiff::Timestamp::from_nanosecond(now.wall.into()).unwrap_or_default();
                jiff::SignedDuration::try_from(ago).ok().and_then(|ago| now.checked_sub(ago).ok()).unwrap_or(FIRST)
            }
        };
        wire(at.max(FIRST))
    }
}

/// Nanoseconds of the proto always count forward in time; those of jiff are negative before 1970.
pub(super) fn wire(time: jiff::Timestamp) -> prost_types::Timestamp {
    let (seconds, nanos) = (time.as_second(), time.subsec_nanosecond());
    match nanos < 0 {
        true => prost_types::Timestamp { seconds: seconds - 1, nanos: nanos + 1_000_000_000 },
        false => prost_types::Timestamp { seconds, nanos },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_how_long_ago_or_when() {
        let now = Timestamp { boot: 0, wall: 1_795_300_000_250_000_000 };
        let at = |text: &str| Time::parse(text).unwrap().at(now).to_string();
        assert_eq!(at("1h"), "2026-11-21T21:26:40.250Z");
        assert_eq!(at("90"), "2026-11-21T22:25:10.250Z");
        assert_eq!(at("2026-11-21T22:30:00+01:00"), "2026-11-21T21:30:00Z");
        assert_eq!(at("2026-11-21T22:30:00.5Z"), "2026-11-21T22:30:00.500Z");
        assert_eq!(Time::parse("2026-11-21 22:30:00"), Time::parse("2026-11-21T22:30"));
        let local = |text: &str| match Time::parse(text).unwrap() {
            Time::At(at) => at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
            Time::Ago(_) => panic!("{text}"),
        };
        assert_eq!([local("2026-11-21"), local("2026-11-21 22:30")], ["2026-11-21 00:00:00", "2026-11-21 22:30:00"]);
        assert_eq!(at("999999999d"), "0001-01-01T00:00:00Z");
        for bad in ["", "yesterday", "-1h", "2026-13-01", "2026-11-21T25:00:00Z", "22:30"] {
            Time::parse(bad).expect_err(bad);
        }
    }

    #[test]
    fn a_time_before_1970_counts_its_nanoseconds_upwards() {
        let time = wire("1969-12-31T23:59:59.25Z".parse().unwrap());
        assert_eq!((time.seconds, time.nanos), (-1, 250_000_000));
    }
}
