//! G1 at its limit: an increment that is acknowledged just before a timeout expires.
//!
//! The timeout starts between the time of its request and the time of its answer. So an increment that is acknowledged
//! within the limit after the request is certainly in time: then the timeout must stay paused while the elicitation is
//! open. A later one may have either result. In both cases, the timeout must expire once the thread runs.
use crate::play::{Play, tell};
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};
use tokio::time::sleep_until;

/// How long after its limit a timeout must stay paused.
const STILL: Duration = Duration::from_millis(150);

pub(crate) async fn race(play: &mut Play<'_>, arguments: &Map<String, Value>) -> Result<Value, String> {
    let name = arguments.get("player").and_then(Value::as_str).unwrap_or("a").to_owned();
    let limit = arguments["limit_ms"].as_u64().ok_or("limit_ms is no number")?;
    let leads = arguments["leads_ms"].as_array().ok_or("leads_ms is no list")?;
    let mut in_time = 0;
    for (index, lead) in leads.iter().enumerate() {
        let lead = lead.as_u64().ok_or("a lead is no number")?;
        let thread = object(json!({"thread_id": format!("race-{index}")}));
        let timeout = object(json!({"timeout": format!("race-{index}")}));
        let mut start = object(json!({"client": "c", "limit_ms": limit}));
        start.extend(thread.clone().into_iter().chain(timeout.clone()));
        let race = format!("a lead of {lead} ms (number {})", index + 1);

        let asked = Instant::now();
        ask(play, &name, "timeout", &start).await?;
        let answered = Instant::now();
        sleep_until((asked + Duration::from_millis(limit.saturating_sub(lead))).into()).await;
        play.server.call("increment", &thread).await?;
        let acknowledged_in_time = Instant::now() < asked + Duration::from_millis(limit);
        sleep_until((answered + Duration::from_millis(limit) + STILL).into()).await;
        let read = ask(play, &name, "read", &timeout).await?;
        if acknowledged_in_time {
            in_time += 1;
            if read["expired"] != false || read["paused"] != true {
                return Err(format!("{race}: acknowledged in time, and yet: {read}"));
            }
        }
        play.server.call("decrement", &thread).await?;
        ask(play, &name, "expired", &timeout).await.map_err(|error| format!("{race}, after the resume: {error}"))?;
    }
    Ok(json!({"races": leads.len(), "in_time": in_time}))
}

async fn ask(play: &mut Play<'_>, player: &str, op: &str, arguments: &Map<String, Value>) -> Result<Value, String> {
    play.player(player).await?.call(op, arguments.clone()).await?.result.map_err(|refusal| tell(&refusal))
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => Map::from_iter([("value".to_owned(), other)]),
    }
}
