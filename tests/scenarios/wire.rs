//! Answers in the form of the line protocol: times in milliseconds with fractions, unused fields left out.
use pausewatch::proto::v1;
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// `None` if it is not a valid duration.
pub(crate) fn duration(ms: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(ms / 1e3).ok()
}

pub(crate) fn wire_duration(ms: f64) -> prost_types::Duration {
    let nanos = (ms * 1e6).round();
    // Both fit: a ttl is at most a day, and even invalid test values are far below the maximum of an i64.
    prost_types::Duration { seconds: (nanos / 1e9).floor() as i64, nanos: nanos.rem_euclid(1e9) as i32 }
}

pub(crate) fn state(state: &v1::PauseState) -> Value {
    let mut json = json!({
        "thread_id": state.thread_id,
        "count": state.count,
        "paused": state.paused,
        "revision": state.revision,
        "paused_total_ms": state.paused_total.as_ref().map_or(0.0, from_wire),
        "elicitations": state.elicitations.iter().map(elicitation).collect::<Vec<_>>(),
    });
    if let Some(paused_for) = &state.paused_for {
        json["paused_for_ms"] = from_wire(paused_for).into();
    }
    json
}

pub(crate) fn elicitation(elicitation: &v1::Elicitation) -> Value {
    let mut json = json!({
        "elicitation_id": elicitation.elicitation_id,
        "thread_id": elicitation.thread_id,
        "reason": elicitation.reason,
        "holder": elicitation.holder,
    });
    if let (Some(create), Some(expire)) = (&elicitation.create_time, &elicitation.expire_time) {
        let lease =
            prost_types::Duration { seconds: expire.seconds - create.seconds, nanos: expire.nanos - create.nanos };
        json["lease_ms"] = from_wire(&lease).into();
    }
    json
}

pub(crate) fn pause(pause: &v1::Pause) -> Value {
    let end = |end: v1::PauseEnd| end.as_str_name().trim_start_matches("PAUSE_END_").to_lowercase();
    let elicitation = |closed: &v1::ClosedElicitation| {
        json!({
            "elicitation_id": closed.elicitation_id,
            "reason": closed.reason,
            "holder": closed.holder,
            "ended_by": end(closed.ended_by()),
        })
    };
    json!({
        "thread_id": pause.thread_id,
        "duration_ms": pause.duration.as_ref().map_or(0.0, from_wire),
        "ended_by": end(pause.ended_by()),
        "elicitations": pause.elicitations.iter().map(elicitation).collect::<Vec<_>>(),
        "omitted_elicitations": pause.omitted_elicitations,
    })
}

pub(crate) fn opened(response: &v1::IncrementElicitationResponse) -> Value {
    json!({
        "count": response.count,
        "paused": response.paused,
        "revision": response.revision,
        "elicitation_id": response.elicitation.as_ref().map(|elicitation| &elicitation.elicitation_id),
        "watchers": response.watchers,
    })
}

pub(crate) fn closed(response: &v1::DecrementElicitationResponse) -> Value {
    json!({"count": response.count, "paused": response.paused, "revision": response.revision})
}

fn from_wire(duration: &prost_types::Duration) -> f64 {
    duration.seconds as f64 * 1e3 + f64::from(duration.nanos) / 1e6
}
