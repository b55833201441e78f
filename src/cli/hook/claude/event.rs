//! The events of Claude Code that matter here, and the changed input of a Bash call.
//!
//! 1. The answer has every field of the tool's input; only `command` and `timeout` differ.
//! 2. Other agents run the hooks of `.claude/settings.json` too (Copilot CLI). Their commands have other limits, which a
//!    clock of ours would make shorter, so an event without any field that only Claude Code sends is left alone, without a message.
//! 3. Values that are not valid are left alone: Claude Code itself reports what is wrong with them. Fields of another type are an
//!    error here: they are most likely those of another version.
use serde_json::{Map, Value, json};
use std::{env, time::Duration};

/// The defaults of Claude Code, in milliseconds.
const DEFAULT_TIMEOUT_MS: u64 = 120_000;
const MAX_TIMEOUT_MS: u64 = 600_000;

/// Fields of events of Claude Code that Copilot CLI does not send. One of them is enough: `permission_mode` is missing in some events,
/// and older versions do not send `tool_use_id`.
const FIELDS_OF_CLAUDE_CODE: [&str; 3] = ["transcript_path", "permission_mode", "tool_use_id"];

/// An event.
#[derive(Debug, PartialEq)]
pub enum Event {
    /// A Bash call is about to be made.
    Bash(BashCall),
    /// A session starts, is resumed or is cleared.
    SessionStart {
        /// The id of the session.
        session_id: String,
    },
    /// Nothing to do.
    Other,
}

/// The input of a Bash call in the foreground.
#[derive(Debug, PartialEq)]
pub struct BashCall(Map<String, Value>);

/// The timeouts of the Bash tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// The timeout of a call that names none, in milliseconds.
    default_ms: u64,
    /// The longest that the tool accepts, in milliseconds.
    tool_max_ms: u64,
    /// The longest that the model may ask for, in milliseconds.
    limit_max_ms: u64,
}

impl Timeouts {
    /// `BASH_DEFAULT_TIMEOUT_MS` and `BASH_MAX_TIMEOUT_MS`, else the defaults of Claude Code.
    pub fn of_environment(max_limit: Duration) -> Self {
        let milliseconds = |name| env::var(name).ok()?.trim().parse::<u64>().ok().filter(|ms| *ms > 0);
        let default_ms = milliseconds("BASH_DEFAULT_TIMEOUT_MS").unwrap_or(DEFAULT_TIMEOUT_MS);
        let tool_max_ms = milliseconds("BASH_MAX_TIMEOUT_MS").unwrap_or(MAX_TIMEOUT_MS).max(default_ms);
        let limit_max_ms = u64::try_from(max_limit.as_millis()).unwrap_or(u64::MAX).max(default_ms);
        Self { default_ms, tool_max_ms, limit_max_ms }
    }
}

impl Event {
    /// Parses what an agent writes to standard input. An event of another agent than Claude Code is [`Event::Other`].
    ///
    /// # Errors
    /// The text is not JSON, or an event of Claude Code has another form than expected.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let event: Value = serde_json::from_slice(text).map_err(|error| format!("the event is not JSON: {error}"))?;
        if !FIELDS_OF_CLAUDE_CODE.iter().any(|field| event[field].is_string()) {
            return Ok(Self::Other);
        }
        let name = event["hook_event_name"].as_str().ok_or("the event has no hook_event_name")?;
        match (name, event["tool_name"].as_str()) {
            ("PreToolUse", Some("Bash")) => match &event["tool_input"] {
                Value::Object(input) => Ok(BashCall::of(input)?.map_or(Self::Other, Self::Bash)),
                _ => Err("the event of Bash has no tool_input".into()),
            },
            ("SessionStart", _) => match event["session_id"].as_str() {
                Some(id) => Ok(Self::SessionStart { session_id: id.to_owned() }),
                None => Err("the event has no session_id".into()),
            },
            _ => Ok(Self::Other),
        }
    }
}

impl BashCall {
    /// `None`: the call is to stay as it is, because it runs in the background or has no command.
    fn of(input: &Map<String, Value>) -> Result<Option<Self>, String> {
        let command =
            input.get("command").and_then(Value::as_str).ok_or("in the event of Bash, command is not text")?;
        let in_background = match input.get("run_in_background") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(in_background)) => *in_background,
            Some(_) => return Err("in the event of Bash, run_in_background is not a boolean".into()),
        };
        if let Some(Value::Bool(_) | Value::Array(_) | Value::Object(_)) = input.get("timeout") {
            return Err("in the event of Bash, timeout is not a number".into());
        }
        let is_left_alone = command.trim().is_empty() || in_background;
        Ok((!is_left_alone).then(|| Self(input.clone())))
    }

    /// The answer to Claude Code. `program`: this program, quoted for the shell. `None`: the timeout is not valid.
    pub fn answer(mut self, program: &str, timeouts: &Timeouts) -> Option<Value> {
        let limit_ms = match self.0.get("timeout") {
            None | Some(Value::Null) => timeouts.default_ms,
            Some(value) => milliseconds(value)?,
        };
        let limit_ms = limit_ms.min(timeouts.limit_max_ms);
        let command = self.0["command"].as_str()?;
        let limit =
            if limit_ms.is_multiple_of(1_000) { format!("{}s", limit_ms / 1_000) } else { format!("{limit_ms}ms") };
        let command = format!("{program} hook claude clock {limit}\n{command}");
        self.0.insert("command".into(), command.into());
        self.0.insert("timeout".into(), timeouts.tool_max_ms.max(limit_ms).into());
        Some(json!({ "hookSpecificOutput": { "hookEventName": "PreToolUse", "updatedInput": self.0 } }))
    }
}

/// A positive number, rounded up; the tool also accepts numbers as text.
fn milliseconds(value: &Value) -> Option<u64> {
    let number = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    (number > 0.0 && number < 1e15).then(|| number.ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUTS: Timeouts = Timeouts { default_ms: 120_000, tool_max_ms: 9_000_000, limit_max_ms: 600_000 };

    /// An event of Claude Code about a call of a tool.
    fn event(name: &str, tool: &str, input: &Value) -> Value {
        json!({ "transcript_path": "/t", "hook_event_name": name, "tool_name": tool, "tool_input": input })
    }

    fn answered(input: &Value) -> Option<Value> {
        let event = event("PreToolUse", "Bash", input);
        match Event::parse(event.to_string().as_bytes()).unwrap() {
            Event::Bash(call) => {
                let answer = call.answer("/bin/p", &TIMEOUTS)?;
                assert_eq!(answer["hookSpecificOutput"].as_object().unwrap().len(), 2, "no decision: {answer}");
                Some(answer["hookSpecificOutput"]["updatedInput"].clone())
            }
            other => {
                assert_eq!(other, Event::Other);
                None
            }
        }
    }

    #[test]
    fn the_limit_is_the_timeout_of_the_tool() {
        for (timeout, limit) in [
            (json!(null), "120s"),
            (json!(2_000), "2s"),
            (json!(2_500), "2500ms"),
            (json!(0.5), "1ms"),
            (json!("3000"), "3s"),
            (json!(600_001), "600s"),
        ] {
            let changed = answered(&json!({ "command": "a\nb", "timeout": timeout })).unwrap();
            let expected =
                json!({ "command": format!("/bin/p hook claude clock {limit}\na\nb"), "timeout": 9_000_000 });
            assert_eq!(changed, expected);
        }
        for timeout in [json!(0), json!(-1), json!("soon"), json!(1e300)] {
            assert_eq!(answered(&json!({ "command": "a", "timeout": timeout })), None, "{timeout}");
        }
    }

    #[test]
    fn every_other_field_is_kept() {
        let input =
            json!({ "command": "a", "description": "d\u{e9}", "run_in_background": false, "new": [{ "x": 1.5 }] });
        let mut changed = answered(&input).unwrap();
        changed["command"] = json!("a");
        changed.as_object_mut().unwrap().remove("timeout");
        assert_eq!(changed, input);
    }

    #[test]
    fn background_and_invalid_calls_stay_as_they_are() {
        for input in [
            json!({ "command": "a", "run_in_background": true }),
            json!({ "command": "" }),
            json!({ "command": " \n" }),
        ] {
            assert_eq!(answered(&input), None, "{input}");
        }
    }

    #[test]
    fn a_field_of_another_type_is_an_error_that_names_it() {
        for (input, field) in [
            (json!({}), "command"),
            (json!({ "command": 7 }), "command"),
            (json!({ "command": "a", "run_in_background": "true" }), "run_in_background"),
            (json!({ "command": "a", "timeout": [] }), "timeout"),
            (json!({ "command": "a", "timeout": true }), "timeout"),
        ] {
            let event = event("PreToolUse", "Bash", &input);
            let error = Event::parse(event.to_string().as_bytes()).unwrap_err();
            assert!(error.contains(field), "{input}: {error}");
        }
    }

    #[test]
    fn foreign_events_are_no_events_of_bash() {
        for event in [
            event("PreToolUse", "Write", &json!({ "command": "a" })),
            event("PostToolUse", "Bash", &json!({ "command": "a" })),
            json!({ "transcript_path": "/t", "hook_event_name": "PreToolUse" }),
        ] {
            assert_eq!(Event::parse(event.to_string().as_bytes()), Ok(Event::Other), "{event}");
        }
        for bad in ["", "{", "\u{0}", r#"{"transcript_path":"/t"}"#, r#"{"transcript_path":"/t","hook_event_name":7}"#]
        {
            assert!(Event::parse(bad.as_bytes()).is_err(), "{bad}");
        }
        let without_input = r#"{"transcript_path":"/t","hook_event_name":"PreToolUse","tool_name":"Bash"}"#;
        assert!(Event::parse(without_input.as_bytes()).is_err());
    }

    /// No event needs to have all of them.
    #[test]
    fn one_field_of_claude_code_is_enough() {
        for field in FIELDS_OF_CLAUDE_CODE {
            let mut event =
                json!({ "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": { "command": "a" } });
            event[field] = json!("x");
            assert!(matches!(Event::parse(event.to_string().as_bytes()), Ok(Event::Bash(_))), "{event}");
            event[field] = json!(null);
            assert_eq!(Event::parse(event.to_string().as_bytes()), Ok(Event::Other), "{event}");
        }
    }
}
