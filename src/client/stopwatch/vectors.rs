//! `clients/vectors`: the paused time of a thread and the meter, with the figures that all libraries share.
use super::{
    meter::{Limit, Meter},
    paused_time::{LocalTime, ObservedState, PausedTimeTracker, Source},
};
use crate::client::vectors::{cases, check_keys, duration, milliseconds};
use serde_json::Value;
use std::time::{Duration, Instant};

const GRACE: Duration = Duration::from_secs(30);

fn of(duration: Duration) -> Option<i64> {
    Some(duration.as_millis().try_into().unwrap())
}

#[test]
fn g3_the_paused_time_has_the_figures_of_all_libraries() {
    for case in cases("paused-time.json") {
        check_keys(&case, &["name", "steps"]);
        let name = &case["name"];
        let start = Instant::now();
        let mut tracker = PausedTimeTracker::new(start, GRACE);
        for step in case["steps"].as_array().unwrap() {
            check_keys(step, &["at_ms", "state", "slept_ms", "disconnect", "since_ms", "expect"]);
            let at = start + duration(step, "at_ms").unwrap();
            if let Some(state) = step.get("state") {
                check_keys(state, &["epoch", "revision", "paused", "total_ms"]);
                let number = |key: &str| state[key].as_u64().unwrap();
                let (epoch, revision) = (number("epoch"), number("revision"));
                let (paused, total) = (state["paused"].as_bool().unwrap(), duration(state, "total_ms").unwrap());
                let now = LocalTime { at, slept: duration(step, "slept_ms").unwrap_or_default() };
                tracker.apply(
                    now,
                    ObservedState { epoch, revision, paused, total, paused_for: Duration::ZERO },
                    Source::Watch,
                );
            }
            if step.get("disconnect").is_some() {
                tracker.disconnect(at, duration(step, "since_ms").map_or(at, |since| start + since));
            }
            if let Some(expect) = step.get("expect") {
                check_keys(expect, &["paused_ms", "paused"]);
                let paused_time = milliseconds(expect, "paused_ms");
                assert!(
                    paused_time.is_none() || paused_time == of(tracker.paused_time(at)),
                    "{name}: {step}: {tracker:?}"
                );
                let paused = expect.get("paused").and_then(Value::as_bool);
                assert!(paused.is_none_or(|paused| paused == tracker.is_paused(at)), "{name}: {step}");
            }
        }
    }
}

#[test]
fn g3_the_meter_has_the_figures_of_all_libraries() {
    for case in cases("meter.json") {
        check_keys(&case, &["name", "start", "steps"]);
        check_keys(&case["start"], &["at_ms", "paused_ms", "limit_ms"]);
        let zero = Instant::now();
        let at = |object: &Value| (zero + duration(object, "at_ms").unwrap(), duration(object, "paused_ms").unwrap());
        let (start, paused_time) = at(&case["start"]);
        let mut meter = Meter::new(duration(&case["start"], "limit_ms"), start);
        meter.follow(start, Duration::ZERO, paused_time);
        for step in case["steps"].as_array().unwrap() {
            check_keys(step, &["at_ms", "paused_ms", "do", "expect"]);
            let (now, paused_time) = at(step);
            match step.get("do").and_then(Value::as_str) {
                Some("pause") => meter.pause(now, paused_time),
                Some("resume") => drop(meter.resume(now, paused_time)),
                other => assert_eq!(other, None, "{step}"),
            }
            let Some(expect) = step.get("expect") else { continue };
            check_keys(expect, &["charged_ms", "left_ms", "shown_ms", "remaining_ms"]);
            let charged = of(meter.charged(now, paused_time));
            let left = match meter.against_limit(now, paused_time) {
                Some(Limit::Left(left)) => of(left),
                Some(Limit::Over(over)) => of(over).map(|over| -over),
                None => None,
            };
            for (key, actual) in [("charged_ms", charged), ("left_ms", left)] {
                let expected = milliseconds(expect, key);
                assert!(expected.is_none() || expected == actual, "{}: {step}: {key} is {actual:?}", case["name"]);
            }
            // In this order only if asked: to show a figure changes the next one.
            if let Some(shown) = milliseconds(expect, "shown_ms") {
                assert_eq!(Some(shown), of(meter.elapsed(now, paused_time)), "{}: {step}", case["name"]);
            }
            if let Some(remaining) = milliseconds(expect, "remaining_ms") {
                assert_eq!(Some(remaining), meter.remaining(now, paused_time).and_then(of), "{}: {step}", case["name"]);
            }
        }
    }
}
