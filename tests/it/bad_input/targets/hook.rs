//! Events of Claude Code on the standard input of `pausewatch hook claude`.
use pausewatch::test_support::cli::{ClaudeEvent, ClaudeTimeouts, parse_duration};
use serde_json::Value;
use std::time::Duration;

const PROGRAM: &str = "'/a program'";
const MAX_LIMIT: Duration = Duration::from_secs(600);

pub(super) fn check(input: &[u8]) {
    let call = match ClaudeEvent::parse(input) {
        Ok(ClaudeEvent::Bash(call)) => call,
        Ok(ClaudeEvent::SessionStart { .. } | ClaudeEvent::Other) => return,
        Err(why) => return assert!(!why.contains(['\n', '\r']), "it is reported on one line: {why:?}"),
    };
    let event: Value = serde_json::from_slice(input).expect("an event is JSON");
    let mut before = event["tool_input"].clone();
    let Some(mut answer) = call.answer(PROGRAM, &ClaudeTimeouts::of_environment(MAX_LIMIT)) else { return };
    let mut after = answer["hookSpecificOutput"]["updatedInput"].take();
    let expected = serde_json::json!({ "hookSpecificOutput": { "hookEventName": "PreToolUse", "updatedInput": null } });
    assert_eq!(answer, expected, "it makes no decision");

    let command = after["command"].as_str().expect("a command stays one");
    let (line, rest) = command.split_once('\n').expect("there is a line in front of it");
    assert_eq!(Some(rest), before["command"].as_str(), "the command itself is unchanged");
    let limit = line.strip_prefix(&format!("{PROGRAM} hook claude clock ")).expect("the line starts the clock");
    let limit = parse_duration(limit).expect("the clock can read its limit");
    assert!(!limit.is_zero() && limit <= MAX_LIMIT, "{limit:?}");
    let timeout = after["timeout"].as_u64().expect("the tool's timeout is a number");
    assert!(
        Duration::from_millis(timeout) >= limit,
        "the tool's own timeout of {timeout} ms would expire first: {limit:?}"
    );

    for value in [&mut before, &mut after] {
        let fields = value.as_object_mut().expect("it is the input of a tool");
        ["command", "timeout"].iter().for_each(|field| _ = fields.remove(*field));
    }
    assert_eq!(before, after, "the other fields are unchanged");
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    super::texts(&[
        r#"{"session_id":"s","transcript_path":"/t","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"make test"}}"#,
        r#"{"tool_use_id":"t","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"a\nb 'c'","timeout":2500,"x":[1.5,null]}}"#,
        r#"{"tool_use_id":"t","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"a","timeout":"0.5","description":"\u00e9"}}"#,
        r#"{"tool_use_id":"t","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"a","timeout":1e300,"run_in_background":false}}"#,
        r#"{"tool_use_id":"t","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"a","run_in_background":true}}"#,
        r#"{"tool_use_id":"t","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"","timeout":-1}}"#,
        r#"{"transcript_path":"/t","hook_event_name":"SessionStart","session_id":"c0ffee","source":"startup"}"#,
        r#"{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"a","mode":"async","initial_wait":30}}"#,
        r#"{"permission_mode":"default","hook_event_name":"PostToolUse","tool_name":"Write","tool_input":{"file_path":"/a"}}"#,
    ])
}
