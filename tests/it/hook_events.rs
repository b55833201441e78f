//! Events on the standard input of `pausewatch hook claude` that change nothing.
use crate::hook_claude::{hook, tool_event};
use crate::program::program;
use serde_json::{Value, json};
use std::fs;

#[test]
fn the_hook_never_blocks_a_tool() {
    let bash = |input: Value| tool_event("PreToolUse", "Bash", &input).to_string();
    let bad_settings = bash(json!({ "command": "true" }));
    for (event, address) in [
        ("", ""),
        ("{", ""),
        ("\u{0}\u{1}", ""),
        ("{\"transcript_path\":\"/t\",\"hook_event_name\":7}", ""),
        (&bash(json!([])), ""),
        (&bad_settings, "nonsense"),
    ] {
        let answer = hook(program().env("PAUSEWATCH_ADDRESS", address), event);
        assert_eq!((answer.code, answer.out.as_str()), (Some(0), ""), "{event}");
        assert_eq!(answer.err.lines().count(), 1, "{event}: {answer:?}");
    }
    for event in [
        bash(json!({ "command": "true", "run_in_background": true })),
        tool_event("PreToolUse", "Read", &json!({})).to_string(),
        json!({ "hook_event_name": "Stop", "transcript_path": "/t" }).to_string(),
    ] {
        let answer = hook(&mut program(), &event);
        assert_eq!((answer.code, answer.out.as_str(), answer.err.as_str()), (Some(0), "", ""), "{event}");
    }
}

/// Copilot CLI runs the hooks of `.claude/settings.json`. A clock would kill its commands, which Copilot itself leaves running.
#[test]
fn events_of_other_agents_are_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let variables = directory.path().join("env.sh");
    let of_copilot = |name: &str, rest: Value| {
        let mut event =
            json!({ "hook_event_name": name, "session_id": "s", "timestamp": "2026-11-28T10:00:00Z", "cwd": "/" });
        event.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        event.to_string()
    };
    let bash = |input: Value| of_copilot("PreToolUse", json!({ "tool_name": "Bash", "tool_input": input }));
    for event in [
        bash(json!({ "command": "npm start", "mode": "async", "initial_wait": 30 })),
        bash(json!({ "command": "make", "mode": "sync" })),
        bash(json!({ "cmd": "make" })),
        bash(json!([])),
        of_copilot("SessionStart", json!({ "source": "startup" })),
        json!({ "hookEventName": "PreToolUse", "toolName": "bash" }).to_string(),
        "[]".to_owned(),
    ] {
        let mut command = program();
        command.env("XDG_RUNTIME_DIR", directory.path()).env("CLAUDE_ENV_FILE", &variables);
        let answer = hook(&mut command, &event);
        assert_eq!((answer.code, answer.out.as_str(), answer.err.as_str()), (Some(0), "", ""), "{event}");
        assert!(!variables.exists(), "{event}");
    }
}

/// Without this warning, the commands of a changed Claude Code would run without the clock, and nobody would know why.
#[test]
fn an_event_of_another_form_is_reported_with_both_versions() {
    let directory = tempfile::tempdir().unwrap();
    let claude = directory.path().join("claude");
    let event = tool_event("PreToolUse", "Bash", &json!({ "cmd": "true" })).to_string();
    let path = format!("{}:{}", directory.path().display(), std::env::var("PATH").unwrap());
    for (says, named) in [
        ("echo '9.8.7 (Claude Code)'", "(Claude Code 9.8.7; tested with 2.1.330)"),
        ("exit 3", "(Claude Code of an unknown version; tested with 2.1.330)"),
        ("exec sleep 60", "(Claude Code of an unknown version; tested with 2.1.330)"),
    ] {
        fs::write(&claude, format!("#!/bin/sh\n{says}\n")).unwrap();
        fs::set_permissions(&claude, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let answer = hook(program().env("PATH", &path), &event);
        assert_eq!((answer.code, answer.out.as_str()), (Some(0), ""), "{answer:?}");
        assert!(answer.err.contains("command is not text") && answer.err.contains(named), "{answer:?}");
        assert_eq!(answer.err.lines().count(), 1, "{answer:?}");
    }
}
