//! The output of commands: snapshots of help and JSON, lists, escaped text, and readers that have gone away.
use crate::program::{Coordinator, assert_snapshot, ended, program};
use pausewatch::client::{Client, IncrementElicitationRequest};
use std::{fs::File, io::pipe};

#[test]
fn help_matches_the_snapshots() {
    for command in [
        "",
        "run",
        "hold",
        "increment",
        "decrement",
        "renew",
        "get",
        "list",
        "history",
        "watch",
        "follow",
        "exec-server",
        "bridge codex",
        "askpass",
        "pinentry",
        "hook claude",
        "hook claude install",
        "token create",
        "token key",
        "token add",
    ] {
        let args = command.split_whitespace().chain(["--help"]);
        let help = ended(program().args(args).env("COLUMNS", "100"));
        assert_eq!((help.code, help.err.as_str()), (Some(0), ""));
        assert_snapshot(
            &format!("help{}{}.txt", if command.is_empty() { "" } else { "-" }, command.replace(' ', "-")),
            &help.out,
        );
    }
}

#[test]
fn json_has_the_form_that_grpcurl_prints() {
    let coordinator = Coordinator::start();
    let mut text = String::new();
    let mut show = |name: &str, json: String| text += &format!("{name}\n{}", masked(&json));
    let opened = coordinator.answer(["increment", "--reason", "Push?", "--holder", "git", "--output", "json"]);
    let id: serde_json::Value = serde_json::from_str(&opened).unwrap();
    let id = id["elicitation"]["elicitationId"].as_str().unwrap();
    show("increment", opened.clone());
    show("renew", coordinator.answer(["renew", id, "--output", "json"]));
    show("get", coordinator.answer(["get", "--output", "json"]));
    show("list", coordinator.answer(["list", "--output", "json"]));
    show("decrement", coordinator.answer(["decrement", "--output", "json"]));
    show("get, running", coordinator.answer(["get", "--output", "json"]));
    show("list, empty", coordinator.answer(["list", "--output", "json"]));
    assert_snapshot("json.txt", &text);
}

/// Masks the values that differ from run to run: ids, times, lengths, revisions.
fn masked(json: &str) -> String {
    let mask = |line: &str| {
        let Some((key, value)) = line.split_once("\": \"") else { return line.to_owned() };
        let kind = match key.trim_start().trim_start_matches('"') {
            "elicitationId" => "ID",
            "createTime" | "expireTime" | "pauseStartTime" => "TIME",
            "pausedTotal" | "pausedFor" | "longestLease" => "LENGTH",
            "revision" => "REVISION",
            "storeEpoch" => "EPOCH",
            _ => return line.to_owned(),
        };
        format!("{key}\": \"{kind}\"{}", if value.ends_with(',') { "," } else { "" })
    };
    json.lines().map(|line| mask(line) + "\n").collect()
}

#[test]
fn list_shows_threads_with_their_elicitations() {
    let coordinator = Coordinator::start();
    assert_eq!(coordinator.answer(["list"]), "No thread is paused.\n");
    coordinator.answer(["increment", "--reason", "Push?", "--holder", "git[7]@laptop"]);
    coordinator.answer(["increment", "--reason", "Publish?", "--holder", "npm[8]@laptop"]);
    coordinator.answer(["increment", "--thread-id", "u"]);
    coordinator.answer(["decrement", "--thread-id", "u"]);
    let list = coordinator.answer(["list"]);
    let lines: Vec<_> = list.lines().collect();
    assert_eq!(lines[0], "THREAD  COUNT  PAUSED FOR  HOLDER         REASON");
    assert!(lines[1].starts_with("t       2      ") && lines[1].ends_with("git[7]@laptop  Push?"), "{list}");
    assert_eq!(lines[2].trim_start(), "npm[8]@laptop  Publish?");
    assert_eq!(lines[3..], ["", "1 thread paused, 2 open elicitations."]);
    let all = coordinator.answer(["list", "--all"]);
    assert!(
        all.contains("\nu       0      -           decremented\n")
            && all.ends_with("\n2 threads, 1 paused, 2 open elicitations.\n"),
        "{all}"
    );
}

#[tokio::test]
async fn list_reads_every_page() {
    let coordinator = Coordinator::start();
    let client = Client::new(&coordinator.address.parse().unwrap()).unwrap();
    for thread in 0..1_001 {
        let thread_id = format!("thread-{thread:04}");
        client.increment_elicitation(IncrementElicitationRequest { thread_id, ..Default::default() }).await.unwrap();
    }
    let list = coordinator.answer(["list"]);
    assert_eq!(list.lines().count(), 1 + 1_001 + 2);
    assert!(list.contains("\nthread-1000 ") && list.ends_with("\n1001 threads paused, 1001 open elicitations.\n"));
    let json: serde_json::Value = serde_json::from_str(&coordinator.answer(["list", "--output", "json"])).unwrap();
    assert_eq!(json["pauseStates"].as_array().unwrap().len(), 1_001);
    assert_eq!(json.get("nextPageToken"), None);
}

#[test]
fn hostile_reason_cannot_control_the_terminal() {
    let coordinator = Coordinator::start();
    let hostile = "\u{1b}[2J\u{9b}31m\r\nt  0  running \u{202e}";
    let id = coordinator.answer(["increment", "--reason", hostile, "--holder", hostile]);
    let mut shown = coordinator.answer(["get"]) + &coordinator.answer(["list"]);
    for form in ["text", "json"] {
        let mut command = coordinator.command(["watch", "--include-elicitations", "--output", form]);
        let watch = crate::program::Process::start(std::mem::replace(&mut command, program()));
        shown += &format!("{}\n{}\n", watch.line(), watch.line());
    }
    shown += &coordinator.answer(["get", "--output", "json"]);
    shown += &coordinator.run(["decrement", hostile]).err;
    shown += &coordinator.answer(["renew", id.trim(), "--output", "json"]);
    assert!(shown.contains("2J"), "{shown}");
    let hostile = |c: &char| (c.is_control() && *c != '\n') || *c == '\u{202e}';
    assert_eq!(shown.chars().find(hostile), None, "{shown:?}");
    assert!(!shown.contains("\nt  0  running"), "{shown}");
}

/// The audit trail and the log are also read on terminals.
#[test]
fn hostile_reason_is_escaped_in_the_audit_trail_and_in_the_log() {
    let hostile = "\u{9b}31m\u{85}\u{202e}\u{2028}\u{e0041}end";
    let directory = tempfile::tempdir().unwrap();
    for form in ["text", "json"] {
        let trail = directory.path().join(form);
        let mut serve = program();
        serve.args(["serve", "--listen", "127.0.0.1:0", "--store", "memory", "--log-format", form, "--audit-log"]);
        let server = crate::program::Process::start({
            serve.arg(&trail);
            serve
        });
        let address = server.line().strip_prefix("listening ").unwrap().to_owned();
        let mut increment = program();
        increment.args([
            "increment",
            "--address",
            &address,
            "--thread-id",
            "t",
            "--reason",
            hostile,
            "--holder",
            hostile,
        ]);
        assert_eq!(ended(&mut increment).code, Some(0));
        server.signal(rustix::process::Signal::TERM);
        let log = server.end().err;
        let trail = std::fs::read_to_string(&trail).unwrap();
        for text in [&log, &trail] {
            assert!(text.contains("end"), "{text:?}");
            let is_hostile = |c: &char| (c.is_control() && *c != '\n') || hostile.contains(*c) && !c.is_ascii();
            assert_eq!(text.chars().find(is_hostile), None, "{form}: {text:?}");
        }
        let opened: serde_json::Value = serde_json::from_str(trail.lines().nth(1).unwrap()).unwrap();
        assert_eq!((opened["reason"].as_str(), opened["holder"].as_str()), (Some(hostile), Some(hostile)));
    }
}

#[test]
fn invalid_token_is_refused_and_never_printed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config.toml");
    let invalid = "a bSECRET";
    let commands = [
        "get",
        "list",
        "history",
        "increment",
        "decrement",
        "renew id",
        "watch",
        "health",
        "run 1 true",
        "hold true",
        "exec-server",
    ];
    for command in commands {
        let usage = if ["run 1 true", "hold true"].contains(&command) { 125 } else { 2 };
        let (name, operands) = command.split_once(' ').unwrap_or((command, ""));
        let start = || {
            let mut start = program();
            start.arg(name);
            start
        };
        let mut option = start();
        option.args(["--token", invalid]);
        let mut variable = start();
        variable.env("PAUSEWATCH_TOKEN", invalid);
        let mut starts = vec![option, variable];
        for text in ["token = \"a bSECRET\"", "token = \"aSECRET", "token = [\"aSECRET\"]", "tokne = \"aSECRET\""] {
            let path = directory.path().join(format!("{}.toml", starts.len()));
            std::fs::write(&path, text).unwrap();
            let mut config = start();
            config.env("PAUSEWATCH_CONFIG", path);
            starts.push(config);
        }
        for mut start in starts {
            let ended = ended(start.args(operands.split_whitespace()));
            let code = if name == "exec-server" { 1 } else { usage };
            assert_eq!(ended.code, Some(code), "{start:?} {ended:?}");
            assert!(["token", "tokne", "line 1"].iter().any(|place| ended.err.contains(place)), "{ended:?}");
            assert!(!ended.err.contains("SECRET") && !ended.out.contains("SECRET"), "{start:?} {ended:?}");
        }
    }
    std::fs::write(&file, "token = \"a bSECRET\"").unwrap();
    let check = ended(program().args(["config", "check", "--print"]).arg(&file));
    assert!(check.code == Some(1) && !(check.err + &check.out).contains("SECRET"));
}

/// `command >&-` closes the output, as some daemons and CI systems do when they start programs.
#[test]
fn every_command_without_standard_output_fails_and_says_so() {
    let coordinator = Coordinator::start();
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let store = || {
        crate::program::Process::start({
            let mut serve = program();
            serve.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(&data);
            serve
        })
    };
    store().line();
    let backup = directory.path().join("backup");
    assert_eq!(ended(program().args(["backup", "--data-dir"]).args([&data, &backup])).code, Some(0));
    let (data, backup) = (data.display(), backup.display());
    for line in [
        "get".to_owned(),
        "get --output json".into(),
        "list".into(),
        "increment".into(),
        "decrement".into(),
        "watch".into(),
        "health".into(),
        "config check /dev/null".into(),
        "completions bash".into(),
        "man".into(),
        format!("backup --data-dir {data} -"),
        format!("check --data-dir {data}"),
        format!("check {backup}"),
        format!("restore --data-dir {data}-2 {backup}"),
        "token add --prefix a tokens".into(),
        "exec-server".into(),
        "--help".into(),
        "get --help".into(),
        "--version".into(),
    ] {
        let mut command = std::process::Command::new("sh");
        let script = format!("exec \"$0\" {line} >&-");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_pausewatch")]).current_dir(&directory);
        command.env("PAUSEWATCH_ADDRESS", &coordinator.address).env("PAUSEWATCH_THREAD_ID", "t");
        command.env("HOME", "/proc/nonexistent").env_remove("XDG_CONFIG_HOME").stdin(std::process::Stdio::null());
        let ended = ended(&mut command);
        assert_eq!(ended.code, Some(1), "{line}: {ended:?}");
        assert!(ended.err.contains("Bad file descriptor"), "{line}: {ended:?}");
    }
    assert!(!directory.path().join("tokens").exists(), "no token is added that nobody could read");
    assert_eq!(coordinator.count(), 0, "no elicitation is opened whose id nobody could read");
    // /dev/null is not a closed output, however it was opened.
    for redirection in [">/dev/null", "<>/dev/null 1>&0"] {
        let script = format!("exec \"$0\" get {redirection}");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_pausewatch")]);
        command.env("PAUSEWATCH_ADDRESS", &coordinator.address).env("PAUSEWATCH_THREAD_ID", "t");
        assert_eq!(ended(&mut command).code, Some(0), "{redirection}");
    }
}

#[test]
fn closed_output_is_no_error_and_a_full_disk_is_one() {
    let coordinator = Coordinator::start();
    for args in [
        ["list", "--output", "text"],
        ["get", "--output", "json"],
        ["increment", "--output", "text"],
        ["health", "--timeout", "5s"],
    ] {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        // Standard error goes to a file, because output() would also capture standard output.
        let errors = tempfile::NamedTempFile::new().unwrap();
        let status = coordinator.command(args).stdout(writer).stderr(errors.reopen().unwrap()).status().unwrap();
        let errors = std::fs::read_to_string(errors.path()).unwrap();
        assert!(
            status.success() && !errors.contains("panicked") && !errors.contains("output"),
            "{args:?}: {status} {errors}"
        );

        let full = File::options().write(true).open("/dev/full").unwrap();
        let status = coordinator.command(args).stdout(full).stderr(std::process::Stdio::null()).status().unwrap();
        assert_eq!(status.code(), Some(1), "{args:?}");
    }
}

#[test]
fn increment_names_the_elicitation_whose_id_it_could_not_print() {
    let coordinator = Coordinator::start();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let errors = tempfile::NamedTempFile::new().unwrap();
    let mut increment = coordinator.command(["increment", "--thread-id", "t"]);
    let status = increment.stdout(full).stderr(errors.reopen().unwrap()).status().unwrap();
    assert_eq!(status.code(), Some(1));
    let errors = std::fs::read_to_string(errors.path()).unwrap();
    let id = errors.split("the elicitation ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or(&errors);
    let decrement = coordinator.command(["decrement", "--thread-id", "t", id]).output().unwrap();
    assert!(decrement.status.success(), "{errors}{decrement:?}");
}
