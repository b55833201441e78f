//! The tools as a model sees them: what they take, what they answer, and what it is told of them.
//!
//! What is unknown is refused by name, for a misspelt `timeout_ms` must not quietly mean none.
use super::{
    clock::Times,
    command::{Command, End, Why},
    output::Taken,
    refusal::Refusal,
};
use rmcp::{
    handler::server::tool::schema_for_type,
    model::{JsonObject, Tool, ToolAnnotations},
    schemars::{self, JsonSchema},
};
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{sync::Arc, time::Duration};

/// What `shell` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Shell {
    /// The command line, for bash.
    pub(super) command: String,
    /// The directory to run it in.
    pub(super) workdir: String,
    /// How long it may run, in milliseconds. Time in which a person is being asked does not count. 0: no limit. Default:
    /// two minutes, unless the server was told otherwise.
    pub(super) timeout_ms: Option<u64>,
    /// Run it in a login shell, which reads the person's profile first. Default: false.
    pub(super) login: Option<bool>,
}

/// What `exec_command` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExecCommand {
    /// The command line, for bash.
    pub(super) command: String,
    /// The directory to run it in. Default: the server's.
    pub(super) workdir: Option<String>,
    /// Give it a terminal. Default: false.
    pub(super) tty: Option<bool>,
    /// How long it may run, in milliseconds. Time in which a person is being asked does not count. Default: no limit.
    pub(super) timeout_ms: Option<u64>,
    /// How long to wait for its end before answering with what it has said so far, in milliseconds. Time in which a person
    /// is being asked does not count. Default: 10000.
    pub(super) yield_time_ms: Option<u64>,
    /// The most output to answer with, in bytes; of more, the beginning and the end. Default: 65536.
    pub(super) max_output_bytes: Option<u64>,
}

/// What `write_stdin` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteStdin {
    /// What `exec_command` answered with.
    #[serde(deserialize_with = "id")]
    pub(super) session_id: String,
    /// What to write; empty: only wait for more output. With a terminal, control characters work (\u0003 is Ctrl-C).
    #[serde(default)]
    pub(super) chars: String,
    /// Close its standard input after that. Not with a terminal: write \u0004 there. Default: false.
    pub(super) close: Option<bool>,
    /// As in `exec_command`. Default: 10000, and 1000 if something is written.
    pub(super) yield_time_ms: Option<u64>,
    /// As in `exec_command`.
    pub(super) max_output_bytes: Option<u64>,
}

/// What `kill` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Kill {
    /// What `exec_command` answered with.
    #[serde(deserialize_with = "id")]
    pub(super) session_id: String,
}

/// What `sessions` takes: nothing.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// What became of a command.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(super) struct Outcome {
    /// As a shell shows it: 124 if its time was up, 128 and the signal's number if a signal killed it. Not there: it still
    /// runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) exit_code: Option<i32>,
    /// What it wrote on standard output and standard error since the last answer, in order.
    pub(super) output: String,
    /// Bytes of output that were left out, where it says so.
    pub(super) omitted_bytes: u64,
    /// Its time was up, and it was killed.
    pub(super) timed_out: bool,
    /// It was not run: a rule forbids it, or a person declined.
    pub(super) denied: bool,
    /// Why it was denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) denied_reason: Option<String>,
    /// It still runs: what to call `write_stdin` and `kill` with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session_id: Option<String>,
    /// Whether the kernel keeps it from changing files outside its directory; not there if it ran without a sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sandbox: Option<String>,
    /// Milliseconds since the call.
    pub(super) wall_ms: u64,
    /// Those that count against `timeout_ms`.
    pub(super) active_ms: u64,
    /// Those in which a person was being asked. `wall_ms` is the sum of the two.
    pub(super) paused_ms: u64,
    /// What else there is to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<String>,
}

/// The commands that `exec_command` has started and whose end has not been told.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Sessions {
    /// The oldest first.
    pub(super) sessions: Vec<Session>,
}

/// One of them.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Session {
    pub(super) session_id: String,
    pub(super) command: String,
    pub(super) workdir: String,
    pub(super) tty: bool,
    /// false: it has ended, and `write_stdin` tells how.
    pub(super) running: bool,
    /// A person is being asked, and its time stands still.
    pub(super) paused: bool,
    pub(super) wall_ms: u64,
    pub(super) active_ms: u64,
    pub(super) paused_ms: u64,
}

/// What is shown of output by default.
pub(super) const OUTPUT: usize = 64 * 1024;

impl Outcome {
    /// Of a command, now, with the output that nobody has taken yet.
    pub(super) fn of(command: &Command, most: usize) -> Self {
        // Looked at before the output is: all of it is there then.
        let end = command.end();
        let Taken { text, omitted } = command.take_output(most, end.is_some());
        let times = end.as_ref().map_or_else(|| command.clock.read(), |end| end.times);
        let (wall_ms, active_ms, paused_ms) = milliseconds(times.wall, times.active);
        let is_over = |why| matches!(&end, Some(End { why: ended, .. }) if *ended == why);
        Self {
            exit_code: end.as_ref().map(|end| end.code),
            output: text,
            omitted_bytes: omitted,
            timed_out: is_over(Why::TimedOut),
            session_id: end.is_none().then(|| command.id.clone()),
            sandbox: command.sandbox.map(|sandbox| sandbox.to_string()),
            wall_ms,
            active_ms,
            paused_ms,
            note: is_over(Why::Idle).then(|| "ended because nobody had asked for it for too long".to_owned()),
            ..Self::default()
        }
    }

    /// Of a command that is not run.
    pub(super) fn denied(reason: String, times: Times) -> Self {
        let (wall_ms, active_ms, paused_ms) = milliseconds(times.wall, times.active);
        let (exit_code, denied_reason) = (Some(1), Some(reason));
        Self { exit_code, denied: true, denied_reason, wall_ms, active_ms, paused_ms, ..Self::default() }
    }
}

impl Session {
    pub(super) fn of(command: &Command) -> Self {
        let end = command.end();
        let times = end.as_ref().map_or_else(|| command.clock.read(), |end| end.times);
        let (wall_ms, active_ms, paused_ms) = milliseconds(times.wall, times.active);
        Self {
            session_id: command.id.clone(),
            command: command.about.line.clone(),
            workdir: command.about.workdir.display().to_string(),
            tty: command.about.tty,
            running: end.is_none(),
            paused: end.is_none() && command.clock.stopwatch().is_paused(),
            wall_ms,
            active_ms,
            paused_ms,
        }
    }
}

/// The wall time, and its two parts, which make it up exactly.
pub(super) fn milliseconds(wall: Duration, active: Duration) -> (u64, u64, u64) {
    let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    (ms(wall), ms(active), ms(wall) - ms(active))
}

/// A limit in milliseconds; 0 is none.
pub(super) fn limit(ms: u64) -> Option<Duration> {
    (ms > 0).then(|| Duration::from_millis(ms))
}

/// Reads the arguments of a call.
pub(super) fn parse<T: DeserializeOwned>(arguments: &JsonObject) -> Result<T, Refusal> {
    let parsed = serde_json::from_value(Value::Object(arguments.clone()));
    parsed.map_err(|error| Refusal(format!("arguments: {error}")))
}

/// Models now and then make a number of it.
fn id<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
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
            "Runs a command line to its end, or until its time is up. Nothing of it runs afterwards: for what is to go on \
             or needs input, use exec_command. Its standard input is empty. While the command asks a person something, its \
             time stands still: paused_ms says for how long. denied: it was not run.",
            ToolAnnotations::new().destructive(true).open_world(true),
        ),
        tool::<ExecCommand, Outcome>(
            "exec_command",
            "Start a command",
            "Runs a command line, and answers when it has ended, or with a session_id when it still runs after \
             yield_time_ms: then write_stdin waits for more and writes to it, and kill ends it. Its standard input stays \
             open: add `< /dev/null` for a program that would wait for its end.",
            ToolAnnotations::new().destructive(true).open_world(true),
        ),
        tool::<WriteStdin, Outcome>(
            "write_stdin",
            "Write to a command, or wait for it",
            "Writes to a command that exec_command has started, if there is something to write, then waits as exec_command \
             does and answers with the new output.",
            ToolAnnotations::new().destructive(true).open_world(true),
        ),
        tool::<Kill, Outcome>(
            "kill",
            "End a command",
            "Ends a command that exec_command has started, with all that it has started, and answers with the rest of its \
             output.",
            ToolAnnotations::new().destructive(true).idempotent(false).open_world(false),
        ),
        tool::<Nothing, Sessions>(
            "sessions",
            "List the commands that run",
            "Lists the commands that exec_command has started and whose end has not been told yet.",
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
    make_plain(&mut schema);
    Arc::new(schema.as_object().cloned().unwrap_or_default())
}

/// Takes out what some clients stumble over: formats that are Rust's alone, and a null where a field may be missing.
fn make_plain(schema: &mut Value) {
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
            fields.values_mut().for_each(make_plain);
        }
        Value::Array(all) => all.iter_mut().for_each(make_plain),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_the_time_make_up_the_whole() {
        let micros = Duration::from_micros;
        for (wall, active) in [(0, 0), (1_999, 1_001), (10_500, 9_999), (5_000, 5_000)] {
            let (wall, active, paused) = milliseconds(micros(wall), micros(active));
            assert_eq!(wall, active + paused);
        }
    }

    #[test]
    fn a_wrong_argument_is_named() {
        let arguments = |json: Value| json.as_object().cloned().unwrap();
        let error = |json| parse::<Shell>(&arguments(json)).unwrap_err().0;
        assert_eq!(error(serde_json::json!({"command": "true"})), "arguments: missing field `workdir`");
        let unknown = error(serde_json::json!({"command": "true", "workdir": "/", "timeout": 5}));
        assert!(unknown.starts_with("arguments: unknown field `timeout`, expected one of `command`"), "{unknown}");
        let poll: WriteStdin = parse(&arguments(serde_json::json!({"session_id": "0badcafe"}))).unwrap();
        assert_eq!((poll.session_id.as_str(), poll.chars.as_str()), ("0badcafe", ""));
        let number: Kill = parse(&arguments(serde_json::json!({"session_id": 12345}))).unwrap();
        assert_eq!(number.session_id, "00012345");
    }
}
