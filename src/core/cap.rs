//! The maximum length of a pause (`--max-pause`): the end of every lease is cut to it, so that no renewal extends a pause
//! beyond it. It counts from the increment that paused the thread.
use super::accounting::{Pause, Timestamp};
use std::time::Duration;

/// When the open pause ends at the latest. `None`: no pause is open, or there is no maximum.
pub(crate) fn cap(pause: &Pause, max_pause: Option<Duration>) -> Option<Timestamp> {
    Some(pause.since?.after(max_pause?))
}

/// The end of a lease, cut to the cap.
pub(crate) fn cut(end: Timestamp, cap: Option<Timestamp>) -> Timestamp {
    cap.filter(|cap| cap.boot < end.boot).unwrap_or(end)
}
