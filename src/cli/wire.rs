//! The proto's times and counts as people read them.
use super::duration;
use std::time::Duration;

/// As the wire has it; what is longer than the wire can say, the server would refuse anyway.
pub(crate) fn duration(duration: Duration) -> prost_types::Duration {
    prost_types::Duration::try_from(duration).unwrap_or(prost_types::Duration { seconds: i64::MAX, nanos: 0 })
}

/// The length; 0 where it is unset or negative.
pub(crate) fn length(duration: &Option<prost_types::Duration>) -> Duration {
    duration.and_then(|duration| duration.try_into().ok()).unwrap_or_default()
}

/// The length in words.
pub(crate) fn shown(length_on_wire: &Option<prost_types::Duration>) -> String {
    duration::show(length(length_on_wire))
}

/// A server's time, since 1970; 0 where it is unset or earlier.
pub(crate) fn since_epoch(time: &Option<prost_types::Timestamp>) -> Duration {
    let Some(time) = time else { return Duration::ZERO };
    let (seconds, nanos) = (u64::try_from(time.seconds), u32::try_from(time.nanos));
    seconds.ok().zip(nanos.ok()).map(|(seconds, nanos)| Duration::new(seconds, nanos)).unwrap_or_default()
}

/// In the time zone of who reads it, to the second, with the offset: `2026-11-21T22:30:00+01:00`.
pub(crate) fn local_time(time: &prost_types::Timestamp) -> String {
    match jiff::Timestamp::new(time.seconds, time.nanos) {
        Ok(time) => time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        Err(_) => time.to_string(),
    }
}

/// `1 open elicitation`, `2 open elicitations`.
pub(crate) fn open(count: u32) -> String {
    plural(count.into(), "open elicitation")
}

/// The count and the noun, with an s where it belongs.
pub(crate) fn plural(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
