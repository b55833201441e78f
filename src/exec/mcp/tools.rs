//! The tools as a model sees them: parameters, results, descriptions.
//!
//! Unknown parameters are refused: a misspelt `timeout_ms` must not silently mean the default.
use super::{
    command::{Command, End, EndReason},
    output::Taken,
    refusal::Refusal,
};
use crate::client::stopwatch::Times;
use rmcp::{
    handler::server::tool::schema_for_type,
    model::{JsonObject, Tool, ToolAnnotations},
    schemars::{self, JsonSchema},
};
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{sync::Arc, time::Duration};

/// The parameters of `shell`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Shell {
    /// The command line, for bash.
    #[serde(deserialize_with = "line")]
    pub(super) command: String,
    /// The directory to run it in.
    pub(super) workdir: String,
    /// Time limit in milliseconds. Time in which a person is being asked does not count. 0: no limit. Default: the server's,
    /// usually two minutes.
    pub(super) timeout_ms: Option<u64>,
    /// Run it in a login shell, which reads the person's profile first. Default: false.
    pub(super) login: Option<bool>,
}

/// The parameters of `exec_command`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExecCommand {
    /// The command line, for bash.
    #[serde(deserialize_with = "line")]
    pub(super) command: String,
    /// The directory to run it in. Default: the server's.
    pub(super) workdir: Option<String>,
    /// Give it a terminal. Default: false.
    pub(super) tty: Option<bool>,
    /// Time limit in milliseconds. Time in which a person is being asked does not count. Default: no limit.
    pub(super) timeout_ms: Option<u64>,
    /// How long to wait for its end before returning its output so far, in milliseconds. Time in which a person is being
    /// asked does not count. Default: 10000.
    pub(super) yield_time_ms: Option<u64>,
    /// The maximum of output to return, in bytes; of longer output, the beginning and the end. Default: 65536.
    pub(super) max_output_bytes: Option<u64>,
}

/// The parameters of `write_stdin`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteStdin {
    /// The session_id that `exec_command` returned.
    #[serde(deserialize_with = "id")]
    pub(super) session_id: String,
    /// The text to write; empty: only wait for more output. With a terminal, control characters work (\u0003 is Ctrl-C).
    #[serde(default)]
    pub(super) chars: String,
    /// Close its standard input after that. Not with a terminal: write \u0004 there. Default: false.
    pub(super) close: Option<bool>,
    /// As in `exec_command`. Default: 10000, and 1000 if something is written.
    pub(super) yield_time_ms: Option<u64>,
    /// As in `exec_command`.
    pub(super) max_output_bytes: Option<u64>,
}

/// The parameters of `kill`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Kill {
    /// The session_id that `exec_command` returned.
    #[serde(deserialize_with = "id")]
    pub(super) session_id: String,
}

/// The parameters of `sessions`: none.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NoParameters {}

/// The result of a command.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(super) struct Outcome {
    /// As a shell shows it: 124 if it timed out, 128 plus the signal's number if a signal killed it. Missing: it still runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) exit_code: Option<i32>,
    /// Its standard output and standard error since the last result, in order.
    pub(super) output: String,
    /// Bytes of output that were left out, at the place that the output marks.
    pub(super) omitted_bytes: u64,
    /// It exceeded its time limit and was killed.
    pub(super) timed_out: bool,
    /// It was not run: a rule forbids it, or a person declined.
    pub(super) denied: bool,
    /// Why it was denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) denied_reason: Option<String>,
    /// It still runs: pass this to `write_stdin` and `kill`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session_id: Option<String>,
    /// Whether the kernel keeps it from changing files outside its directory, and whether the programs that it executes are judged by the
    /// rules; missing if it ran without a sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sandbox: Option<String>,
    /// Milliseconds since the call.
    pub(super) wall_ms: u64,
    /// Milliseconds that count against `timeout_ms`.
    pub(super) active_ms: u64,
    /// Milliseconds in which a person was being asked. `wall_ms` is `active_ms` plus `paused_ms`.
    pub(super) paused_ms: u64,
    /// A remark, such as why it was ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<String>,
}

/// The commands that `exec_command` has started and whose end was not yet reported.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Sessions {
    /// The oldest first.
    pub(super) sessions: Vec<Session>,
}

/// A command in that list.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Session {
    pub(super) session_id: String,
    pub(super) command: String,
    pub(super) workdir: String,
    pub(super) tty: bool,
    /// false: it has ended, and `write_stdin` returns its result.
    pub(super) running: bool,
    /// A person is being asked, and its time limit is paused.
    pub(super) paused: bool,
    pub(super) wall_ms: u64,
    pub(super) active_ms: u64,
    pub(super) paused_ms: u64,
}

/// The default of `max_output_bytes`.
pub(super) const DEFAULT_MAX_OUTPUT: usize = 64 * 1024;

impl Outcome {
    /// The current state of a command, with its unread output.
    pub(super) fn of(command: &Command, max_bytes: usize) -> Self {
        // Read before the output: after the end, the output is complete.
        let end = command.end();
        let Taken { text, omitted } = command.take_output(max_bytes, end.is_some());
        let times = end.as_ref().map_or_else(|| command.clock.read(), |end| end.times);
        let (wall_ms, active_ms, paused_ms) = times.milliseconds();
        let ended_by = |reason| matches!(&end, Some(End { reason: actual, .. }) if *actual == reason);
        let mut notes = command.notes.take();
        if ended_by(EndReason::Idle) {
            notes.push("ended because no call used it for too long".to_owned());
        }
        Self {
            exit_code: end.as_ref().map(|end| end.code),
            output: text,
            omitted_bytes: omitted,
            timed_out: ended_by(EndReason::TimedOut),
            session_id: end.is_none().then(|| command.id.clone()),
            sandbox: command.sandbox.map(|sandbox| match &command.nested {
                Some(nested) if nested.has_rules() => format!("{sandbox}; {nested}"),
                _ => sandbox.to_string(),
            }),
            wall_ms,
            active_ms,
            paused_ms,
            note: (!notes.is_empty()).then(|| notes.join("; ")),
            ..Self::default()
        }
    }

    /// The result of a command that was not run.
    pub(super) fn denied(reason: String, times: Times) -> Self {
        let (wall_ms, active_ms, paused_ms) = times.milliseconds();
        let (exit_code, denied_reason) = (Some(1), Some(reason));
        Self { exit_code, denied: true, denied_reason, wall_ms, active_ms, paused_ms, ..Self::default() }
    }
}

impl Session {
    pub(super) fn of(command: &Command) -> Self {
        let running = command.end().is_none();
        let (wall_ms, active_ms, paused_ms) = command.times().milliseconds();
        Self {
            session_id: command.id.clone(),
            command: command.spec.line.clone(),
            workdir: command.spec.workdir.display().to_string(),
            tty: command.spec.tty,
            running,
            paused: running && command.clock.stopwatch().is_paused(),
            wall_ms,
            active_ms,
            paused_ms,
        }
    }
}

/// A limit in milliseconds; 0 means none.
pub(super) fn limit(ms: u64) -> Option<Duration> {
    (ms > 0).then(|| Duration::from_millis(ms))
}

/// Parses the arguments of a call.
pub(super) fn parse<T: DeserializeOwned>(arguments: &JsonObject) -> Result<T, Refusal> {
    let error = match serde_json::from_value(Value::Object(arguments.clone())) {
        Ok(parsed) => return Ok(parsed),
        Err(error) => error.to_string(),
    };
    // The text names a field that is missing or unknown, but not one with a wrong value: that has the same error alone.
    let is_about = |(name, value): &(&String, &Value)| {
        let alone = JsonObject::from_iter([((*name).clone(), (*value).clone())]);
        serde_json::from_value::<T>(Value::Object(alone)).is_err_and(|alone| alone.to_string() == error)
    };
    let wrong = arguments.iter().find(is_about).filter(|_| !error.contains(" field `"));
    let name = wrong.map(|(name, _)| format!("`{name}`: ")).unwrap_or_default();
    Err(Refusal(format!("arguments: {name}{error}")))
}

/// The longest argument that Linux passes to a program, in bytes: 32 pages with the NUL at its end.
fn max_line() -> usize {
    if cfg!(target_os = "linux") { 32 * rustix::param::page_size() - 1 } else { usize::MAX }
}

/// Parses a command line. One that no shell could be started with is refused before anybody is asked about it.
fn line<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let line = String::deserialize(from)?;
    let (length, most) = (line.len(), max_line());
    match length > most {
        true => Err(serde::de::Error::custom(format!(
            "the line has {length} bytes, and this system starts no program with more than {most} in one argument: write a long text to a file in \
             parts, or by `exec_command` with `cat > FILE` and `write_stdin`"
        ))),
        false => Ok(line),
    }
}

/// Parses a session id; models sometimes send it as a number.
fn id<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "invalid type, expected a string")]
    enum Id {
        Text(String),
        Number(u64),
    }
    Ok(match Id::deserialize(from)? {
        Id::Text(text) => text,
        Id::Number(number) => format!("{number:08}"),
    })
}

/// The list of the tools.
pub(super) fn list() -> Vec<Tool> {
    vec![
        tool::<Shell, Outcome>(
            "shell",
            "Run a command",
            "Runs a command line to its end, or until its time limit. Its processes do not outlive the call: for background \
             processes or input, use exec_command. Its standard input is empty. While the command asks a person something, \
             its time limit is paused: paused_ms says for how long. denied: it was not run.",
            ToolAnnotations::new().destructive(true).open_world(true),
        ),
        tool::<ExecCommand, Outcome>(
            "exec_command",
            "Start a command",
            "Runs a command line and returns at its end, or with a session_id if it still runs after yield_time_ms: then \
             write_stdin waits for more output and writes to it, and kill ends it. Its standard input stays open: add \
             `< /dev/null` for a program that reads until the end of its input.",
            ToolAnnotations::new().destructive(true).open_world(true),
        ),
        tool::<WriteStdin, Outcome>(
            "write_stdin",
            "Write to a command, or wait for it",
            "Writes to a command that exec_command has started, unless chars is empty; then waits like exec_command and \
             returns the new output.",
            ToolAnnotations::new().destructive(true).open_world(true),
        ),
        tool::<Kill, Outcome>(
            "kill",
            "End a command",
            "Ends a command that exec_command has started, with all its child processes, and returns the rest of its output.",
            ToolAnnotations::new().destructive(true).idempotent(false).open_world(false),
        ),
        tool::<NoParameters, Sessions>(
            "sessions",
            "List the commands that run",
            "Lists the commands that exec_command has started and whose end was not yet reported.",
            ToolAnnotations::new().read_only(true).open_world(false),
        ),
    ]
}

fn tool<I: JsonSchema + 'static, O: JsonSchema + 'static>(
    name: &'static str,
    title: &'static str,
    description: &'static str,
    annotations: ToolAnnotations,
) -> Tool {
    Tool::new(name, description, schema::<I>())
        .with_title(title)
        .with_raw_output_schema(schema::<O>())
        .with_annotations(annotations)
}

fn schema<T: JsonSchema + 'static>() -> Arc<JsonObject> {
    let mut schema = Value::Object((*schema_for_type::<T>()).clone());
    simplify(&mut schema);
    Arc::new(schema.as_object().cloned().unwrap_or_default())
}

/// Removes what some clients cannot handle: formats specific to Rust, and `null` as the type of an optional field.
fn simplify(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.remove("format");
            if let Some(Value::Array(types)) = fields.get("type")
                && let [only, Value::String(null)] = types.as_slice()
                && null == "null"
            {
                let only = only.clone();
                fields.insert("type".to_owned(), only);
            }
            fields.values_mut().for_each(simplify);
        }
        Value::Array(all) => all.iter_mut().for_each(simplify),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_wrong_argument() {
        let arguments = |json: Value| json.as_object().cloned().unwrap();
        let error = |json| parse::<Shell>(&arguments(json)).unwrap_err().0;
        assert_eq!(error(serde_json::json!({"command": "true"})), "arguments: missing field `workdir`");
        let unknown = error(serde_json::json!({"command": "true", "workdir": "/", "timeout": 5}));
        assert!(unknown.starts_with("arguments: unknown field `timeout`, expected one of `command`"), "{unknown}");
        let wrong = |field: &str, value: Value| {
            let json = serde_json::json!({"command": "true", "session_id": "1", "yield_time_ms": 1, field: value});
            let mut arguments = arguments(json);
            arguments.remove(if field == "session_id" { "command" } else { "session_id" });
            match field {
                "session_id" => parse::<WriteStdin>(&arguments).unwrap_err().0,
                _ => parse::<ExecCommand>(&arguments).unwrap_err().0,
            }
        };
        let number = "arguments: `timeout_ms`: invalid type: string \"5\", expected u64";
        assert_eq!(wrong("timeout_ms", "5".into()), number);
        assert_eq!(wrong("yield_time_ms", (-1).into()), "arguments: `yield_time_ms`: invalid number");
        assert_eq!(wrong("command", Value::Null), "arguments: `command`: invalid type: null, expected a string");
        assert_eq!(wrong("session_id", Value::Null), "arguments: `session_id`: invalid type, expected a string");
        let long = |length| serde_json::json!({"command": "x".repeat(length), "workdir": "/"});
        assert!(parse::<Shell>(&arguments(long(max_line()))).is_ok());
        let long = parse::<Shell>(&arguments(long(max_line() + 1))).unwrap_err().0;
        assert!(long.starts_with("arguments: `command`: the line has ") && long.contains("`write_stdin`"), "{long}");
        let poll: WriteStdin = parse(&arguments(serde_json::json!({"session_id": "0badcafe"}))).unwrap();
        assert_eq!((poll.session_id.as_str(), poll.chars.as_str()), ("0badcafe", ""));
        let number: Kill = parse(&arguments(serde_json::json!({"session_id": 12345}))).unwrap();
        assert_eq!(number.session_id, "00012345");
    }
}
