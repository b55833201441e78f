//! The lines on standard input.
use super::super::duration;
use serde::Deserialize;
use std::time::Duration;

/// The default of `grace`.
const GRACE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) enum Command {
    Start { id: String, thread_id: String, limit: Option<Duration>, max_wall: Option<Duration>, grace: Duration },
    Stop { id: String },
}

#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Start { id: String, thread_id: String, limit: String, max_wall: Option<String>, grace: Option<String> },
    Stop { id: String },
}

impl Command {
    /// Parses a line; otherwise says what is wrong with it, with the id if it has one.
    pub(super) fn parse(line: &[u8]) -> Result<Self, (Option<String>, String)> {
        let value: serde_json::Value =
            serde_json::from_slice(line).map_err(|error| (None, format!("not a JSON object: {error}")))?;
        if !value.is_object() {
            return Err((None, "not a JSON object: the line begins with `{` and ends with `}`".to_owned()));
        }
        let id = value.get("id").and_then(|id| id.as_str()).map(str::to_owned);
        let line = Line::deserialize(value).map_err(|error| error.to_string());
        line.and_then(Self::of).map_err(|why| (id, why))
    }

    fn of(line: Line) -> Result<Self, String> {
        // 0: none, as on the command line.
        let limited = |limit: Duration| Some(limit).filter(|limit| !limit.is_zero());
        let parse = |name: &str, text: &str| duration::parse(text).map_err(|why| format!("{name} {text:?}: {why}"));
        Ok(match line {
            Line::Stop { id } => Command::Stop { id },
            Line::Start { id, thread_id, limit, max_wall, grace } => Command::Start {
                id,
                thread_id,
                limit: limited(parse("limit", &limit)?),
                max_wall: max_wall.map(|text| parse("max_wall", &text)).transpose()?.and_then(limited),
                grace: grace.map_or(Ok(GRACE), |text| parse("grace", &text))?,
            },
        })
    }
}
