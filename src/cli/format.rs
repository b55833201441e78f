//! The proto's times, durations and counts as text.
use super::duration;
use crate::client::{PauseEnd, PauseState};
use jiff::tz::TimeZone;
use prost_types::Timestamp;
use std::time::{Duration, SystemTime};

pub(crate) fn to_wire(ttl: Duration) -> prost_types::Duration {
    ttl.try_into().expect("a ttl is at most 24 h")
}

/// 0 if it is unset or negative.
pub(crate) fn length(duration: &Option<prost_types::Duration>) -> Duration {
    duration.and_then(|duration| duration.try_into().ok()).unwrap_or_default()
}

pub(crate) fn length_text(duration: &Option<prost_types::Duration>) -> String {
    duration::show(length(duration))
}

/// The time since 1970, by the server's clock; 0 if it is unset or earlier.
pub(crate) fn since_epoch(time: &Option<Timestamp>) -> Duration {
    let time = time.and_then(|time| SystemTime::try_from(time).ok());
    time.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok()).unwrap_or_default()
}

/// In the time zone of the reader, to the second, with the offset: `2026-11-21T22:30:00+01:00`.
pub(crate) fn local_time(time: &Timestamp) -> String {
    match jiff::Timestamp::new(time.seconds, time.nanos) {
        Ok(time) => time.to_zoned(TimeZone::system()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        Err(_) => time.to_string(),
    }
}

/// The same without the offset: `2026-11-21 22:30:00`.
pub(crate) fn short_local_time(time: &Timestamp) -> String {
    match jiff::Timestamp::new(time.seconds, time.nanos) {
        Ok(time) => time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => time.to_string(),
    }
}

/// How the last pause of a running thread ended, in one word; `None`: it is paused, or its last pause is not known.
pub(crate) fn pause_end(state: &PauseState) -> Option<&'static str> {
    ended_by(state.last_pause_end())
}

/// How a pause or an elicitation ended, in one word; `None`: that is not known.
pub(crate) fn ended_by(end: PauseEnd) -> Option<&'static str> {
    match end {
        PauseEnd::Unspecified => None,
        PauseEnd::Decremented => Some("decremented"),
        PauseEnd::Released => Some("released"),
        PauseEnd::Expired => Some("expired"),
        PauseEnd::MaxPause => Some("max_pause"),
    }
}

/// `1 open elicitation`, `2 open elicitations`.
pub(crate) fn open(count: u32) -> String {
    plural(count.into(), "open elicitation")
}

pub(crate) fn plural(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
