//! The small commands for operators: `health`, `config check`, `completions`, `man`.
use crate::program::{Coordinator, Process, ended, program};
use clap::CommandFactory;
use pausewatch::test_support::cli::Program;
use rustix::process::Signal;
use std::io::{BufRead, BufReader, pipe};

#[test]
fn health_is_reported_by_the_exit_code() {
    let coordinator = Coordinator::start();
    assert_eq!(coordinator.answer(["health"]), "serving\n");
    assert_eq!(coordinator.answer(["health", "--service", "pausewatch.v1.ElicitationService"]), "serving\n");
    assert_eq!(coordinator.answer(["health", "--output", "json"]), "{\n  \"status\": \"SERVING\"\n}\n");
    assert_eq!(coordinator.answer(["health", "--timeout", "1000000000d"]), "serving\n");
    let unknown = coordinator.run(["health", "--service", "other"]);
    assert_eq!((unknown.code, unknown.err.contains("has no such service")), (Some(1), true), "{unknown:?}");
    drop(coordinator);
    let mut command = program();
    let down = ended(command.args(["health", "--address", "unix:/proc/nonexistent/p.sock"]));
    assert_eq!((down.code, down.out.as_str()), (Some(1), ""));
    assert!(
        down.err.contains("no answer from a coordinator at unix:/proc/nonexistent/p.sock: No such file"),
        "{down:?}"
    );
    let mut command = program();
    assert_eq!(ended(command.args(["health", "--address", "nowhere"])).code, Some(2));
}

#[test]
fn the_time_of_health_is_for_all_addresses() {
    let silent = [(); 3].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let addresses = silent.each_ref().map(|listener| listener.local_addr().unwrap().to_string()).join(",");
    let late = ended(program().args(["health", "--timeout", "600ms", "--address", &addresses]));
    assert_eq!(late.code, Some(1));
    assert!(late.err.ends_with("no answer within 0.2s\n"), "{}", late.err);
}

#[test]
fn a_data_directory_that_is_a_file_is_called_so() {
    let file = tempfile::NamedTempFile::new().unwrap();
    for given in [file.path().to_owned(), file.path().join("data")] {
        let refused = ended(program().args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(&given));
        let expected = format!("create {}: {} is not a directory", given.display(), file.path().display());
        assert!(refused.code == Some(1) && refused.err.contains(&expected), "{}", refused.err);
    }
}

#[test]
fn a_start_that_is_refused_creates_nothing() {
    let directory = tempfile::tempdir().unwrap();
    for (options, why) in [
        (&["--listen", "0.0.0.0:0"][..], "plain text is served only on loopback"),
        (&["--metrics-listen", "0.0.0.0:0"], "metrics are served in plain text"),
        (&["--tls-cert", "none", "--tls-key", "none"], "--tls-cert none: No such file"),
        (&["--tokens", "none"], "--tokens none: No such file"),
    ] {
        let mut command = program();
        command.args(["serve", "--data-dir", "data", "--audit-log", "audit"]).current_dir(directory.path());
        let refused = ended(command.args(["--listen", "127.0.0.1:0"]).args(options));
        assert!(refused.code == Some(1) && refused.err.contains(why), "{why}: {}", refused.err);
        assert_eq!(directory.path().read_dir().unwrap().count(), 0, "{options:?}");
    }
}

#[test]
fn health_watch_reports_the_shutdown_of_a_server() {
    let mut command = program();
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", "memory"]);
    let server = Process::start(command);
    let address = server.line().strip_prefix("listening ").unwrap().to_owned();
    let mut command = program();
    command.args(["health", "--watch", "--address", &address]);
    let watch = Process::start(command);
    assert_eq!(watch.line(), "serving");
    let mut command = program();
    command.args(["health", "--watch", "--output", "json", "--address", &address]);
    let json = Process::start(command);
    assert_eq!(json.line(), "{\"status\":\"SERVING\"}");
    server.signal(Signal::TERM);
    let end = json.end();
    assert_eq!((end.code, end.out.as_str()), (Some(1), "{\"status\":\"NOT_SERVING\"}\n"), "{end:?}");
    let end = watch.end();
    assert_eq!((end.code, end.out.as_str()), (Some(1), "not serving\n"), "{end:?}");
}

#[test]
fn health_watch_names_the_server_whose_connection_broke() {
    let coordinator = Coordinator::start();
    let watch = Process::start(coordinator.command(["health", "--watch"]));
    assert_eq!(watch.line(), "serving");
    coordinator.signal(Signal::KILL);
    let end = watch.end();
    let begin = format!("pausewatch health: no answer from a coordinator at {}: ", coordinator.address);
    assert_eq!((end.code, end.err.starts_with(&begin)), (Some(1), true), "{end:?}");
}

#[test]
fn health_watch_ends_quietly_when_its_output_is_closed() {
    let coordinator = Coordinator::start();
    let (reader, writer) = pipe().unwrap();
    let mut command = coordinator.command(["health", "--watch"]);
    command.stdout(writer);
    let watch = Process::start_as_it_is(command);
    let mut line = String::new();
    BufReader::new(reader).read_line(&mut line).unwrap();
    let ended = watch.end();
    assert_eq!((line.as_str(), ended.code, ended.err.as_str()), ("serving\n", Some(0), ""));
}

fn config(text: &str, arguments: &[&str]) -> crate::program::Ended {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("c.toml"), text).unwrap();
    let mut command = program();
    ended(command.args(["config", "check", "c.toml"]).args(arguments).current_dir(directory.path()))
}

#[test]
fn every_problem_of_a_config_file_is_reported() {
    let sound = config("thread_id = 't'\n[serve]\nworkers = 2\n", &[]);
    assert_eq!((sound.code, sound.out.as_str()), (Some(0), "c.toml: no problems\n"), "{sound:?}");
    let wrong = config("adress = 'h:1'\n[serve]\nworkers = 0\nlisten = ['h']\n", &[]);
    assert_eq!((wrong.code, wrong.err.lines().count()), (Some(1), 3), "{wrong:?}");
    for part in [
        "line 1, column 1: unknown field `adress`",
        "line 3, column 11: workers: 0 is not in 1..=256",
        "line 4, column 11: listen: ",
    ] {
        assert!(wrong.err.contains(part), "{wrong:?} does not contain {part:?}");
    }
    assert!(wrong.err.contains("HOST:PORT"), "{wrong:?}");
    let telemetry = config("[serve]\nmetrics_listen = 'foo'\notlp_endpoint = '127.0.0.1:4317'\n", &[]);
    assert_eq!((telemetry.code, telemetry.err.lines().count()), (Some(1), 2), "{telemetry:?}");
    for part in [
        "line 2, column 18: metrics_listen: expected HOST:PORT",
        "line 3, column 17: otlp_endpoint: expected http://HOST:PORT",
    ] {
        assert!(telemetry.err.contains(part), "{telemetry:?} does not contain {part:?}");
    }
    let thread = config("\nthread_id = \"a\\nb\"\n[serve]\nworkers = 0\n", &[]);
    assert_eq!((thread.code, thread.err.lines().count()), (Some(1), 2), "{thread:?}");
    assert!(
        thread.err.contains("line 2, column 13: thread_id is a text with the control character U+000A"),
        "{thread:?}"
    );
    let half = config("[serve]\ntls_cert = 'c.pem'\n", &[]);
    assert_eq!((half.code, half.err.contains("--tls-key")), (Some(1), true), "{half:?}");
    let plaintext = config("address = 'example.com:7420'\ntoken = 's3cret-s3cret'\n", &[]);
    let begin = "pausewatch config: config file c.toml: the token would be sent to example.com:7420 in plain text";
    assert_eq!((plaintext.code, plaintext.err.starts_with(begin)), (Some(1), true), "{plaintext:?}");
    assert!(!plaintext.err.contains("s3cret"), "{plaintext:?}");
    let mut command = program();
    let none = ended(command.args(["config", "check"]));
    assert_eq!((none.code, none.out.contains("there is no config file")), (Some(0), true), "{none:?}");
    let variable = ended(command.env("PAUSEWATCH_SERVE_WORKERS", "0"));
    assert_eq!(variable.code, Some(1), "{variable:?}");
    assert_eq!(variable.err, "pausewatch config: PAUSEWATCH_SERVE_WORKERS: 0 is not in 1..=256\n");
    let thread = ended(program().args(["config", "check"]).env("CODEX_THREAD_ID", "a\n"));
    assert_eq!((thread.code, thread.err.lines().count()), (Some(1), 1), "{thread:?}");
    assert!(thread.err.starts_with("pausewatch config: CODEX_THREAD_ID is a text with the control"), "{thread:?}");
    let mut command = program();
    assert_eq!(ended(command.args(["config", "check", "/proc/nonexistent"])).code, Some(1));
}

#[test]
fn files_of_a_replica_are_checked_too() {
    let replica = "[serve]\nstore = 'etcd'\netcd_endpoints = ['https://h:2379']\netcd_ca = '/proc/nonexistent/etcd.pem'\n\
                   peer_ca = '/proc/nonexistent/peer.pem'\n";
    let wrong = config(replica, &[]);
    assert_eq!((wrong.code, wrong.err.lines().count()), (Some(1), 2), "{wrong:?}");
    for part in
        ["--etcd-ca /proc/nonexistent/etcd.pem: No such file", "--peer-ca /proc/nonexistent/peer.pem: No such file"]
    {
        assert!(wrong.err.contains(part), "{wrong:?} does not contain {part:?}");
    }
    // With an empty file, no server would be trusted.
    let empty = tempfile::NamedTempFile::new().unwrap();
    let name = empty.path().display().to_string();
    let wrong =
        config(&replica.replace("/proc/nonexistent/etcd.pem", &name).replace("/proc/nonexistent/peer.pem", &name), &[]);
    for option in ["--etcd-ca", "--peer-ca"] {
        let expected = format!("{option} {name}: it contains no certificate in PEM format");
        assert!(wrong.err.contains(&expected), "{wrong:?} does not contain {expected:?}");
    }
}

#[test]
fn printed_settings_of_a_client_have_their_sources() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("c.toml"), "address = '127.0.0.1:1'\n").unwrap();
    let mut command = program();
    command.args(["config", "check", "c.toml", "--print"]).current_dir(directory.path());
    let printed = ended(command.env("CLAUDE_CODE_SESSION_ID", "s").env("PAUSEWATCH_TOKEN_FILE", "tok"));
    for line in [
        "address = \"127.0.0.1:1\"  # config file",
        "thread_id = \"s\"  # CLAUDE_CODE_SESSION_ID",
        "token_file = \"tok\"  # PAUSEWATCH_TOKEN_FILE",
    ] {
        assert!(printed.out.lines().any(|printed| printed == line), "{printed:?} does not have {line:?}");
    }
}

#[test]
fn files_and_listeners_of_serve_are_checked_without_starting_it() {
    let missing = config(
        "[serve]\ntls_cert = '/proc/nonexistent/c.pem'\ntls_key = '/proc/nonexistent/k.pem'\ntokens = '/proc/nonexistent/t.toml'\n\
         audit_log = '/proc/nonexistent/audit.log'\nmetrics_listen = '0.0.0.0:0'\n",
        &[],
    );
    assert_eq!((missing.code, missing.err.lines().count()), (Some(1), 4), "{missing:?}");
    for part in [
        "serve: --tls-cert /proc/nonexistent/c.pem: No such file",
        "serve: --tokens /proc/nonexistent/t.toml: No such file",
        "serve: open the audit trail /proc/nonexistent/audit.log: No such file",
        "serve: listen on 0.0.0.0:0: metrics are served in plain text, and only on loopback",
    ] {
        assert!(missing.err.contains(part), "{missing:?} does not contain {part:?}");
    }
    let keys = config("[serve]\njwt_keys = 'c.toml'\n", &[]);
    assert_eq!((keys.code, keys.err.contains("serve: --jwt-keys c.toml: ")), (Some(1), true), "{keys:?}");
    let plain = config("[serve]\nlisten = ['127.0.0.1:0', '0.0.0.0:0']\n", &[]);
    assert_eq!((plain.code, plain.err.lines().count()), (Some(1), 1), "{plain:?}");
    assert!(plain.err.contains("serve: listen on 0.0.0.0:0: plain text is served only on loopback"), "{plain:?}");
    let insecure = config("[serve]\nlisten = '0.0.0.0:0'\ninsecure = true\naudit_log = 'audit.log'\n", &[]);
    assert_eq!(insecure.code, Some(0), "{insecure:?}");
}

#[test]
fn printed_settings_have_their_origin_and_are_a_valid_config_file() {
    let text = "token = 's3cret-s3cret'\nthread_id = '17'\n[serve]\nlisten = ['127.0.0.1:0', \"unix:a\\\"b\"]\ninsecure = true\n";
    let printed = config(text, &["--print"]);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    for part in [
        "address = \"127.0.0.1:7420\"  # default\n",
        "token = \"(hidden)\"  # config file\n",
        "listen = [\"127.0.0.1:0\", \"unix:a\\\"b\"]  # c.toml, line 4\n",
        "thread_id = \"17\"  # the config file\n",
        "insecure = true  # c.toml, line 5\n",
        "anonymous_ttl = \"24h\"  # default\n",
    ] {
        assert!(printed.out.contains(part), "{} does not contain {part:?}", printed.out);
    }
    assert_eq!(config(&printed.out, &[]).code, Some(0), "{}", printed.out);
}

/// The names of all commands and of their subcommands.
fn commands() -> Vec<String> {
    fn beneath(command: &clap::Command, names: &mut Vec<String>) {
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help" && !sub.is_hide_set()) {
            names.push(sub.get_name().to_owned());
            beneath(sub, names);
        }
    }
    let mut names = Vec::new();
    beneath(&Program::command(), &mut names);
    names
}

#[test]
fn completions_offer_nothing_that_help_does_not_show() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let printed = ended(program().args(["completions", shell]));
        assert_eq!(printed.code, Some(0), "{printed:?}");
        for hidden in ["codex-guard", "clock-guard", "clock-watch", "at-terminal"] {
            assert!(!printed.out.contains(hidden), "{shell}: {hidden}");
        }
    }
}

#[test]
fn completions_and_manual_pages_contain_every_command_and_option() {
    let serve = Program::command().find_subcommand("serve").unwrap().clone();
    let options: Vec<_> = serve.get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned)).collect();
    assert!(options.contains(&"anonymous-ttl".to_owned()) && commands().contains(&"check".to_owned()));
    for shell in ["bash", "zsh", "fish"] {
        let printed = ended(program().args(["completions", shell]));
        assert_eq!(printed.code, Some(0), "{printed:?}");
        let lacks = |name: &&String| !printed.out.contains(name.as_str());
        assert_eq!(commands().iter().chain(&options).find(lacks), None, "{shell}");
    }
    let directory = tempfile::tempdir().unwrap();
    let written = ended(program().arg("man").arg(directory.path().join("pages")));
    assert_eq!(written.code, Some(0), "{written:?}");
    let page = |name: &str| std::fs::read_to_string(directory.path().join("pages").join(name)).unwrap();
    for command in Program::command().get_subcommands().filter(|command| !command.is_hide_set()) {
        assert!(page(&format!("pausewatch-{}.1", command.get_name())).contains(".SH SYNOPSIS"));
    }
    let serve = page("pausewatch-serve.1").replace('\\', "");
    assert_eq!(options.iter().find(|option| !serve.contains(&format!("--{option}"))), None);
    assert_eq!(ended(program().arg("man")).out, page("pausewatch.1"));
    let title = |page: &str| page.lines().find(|line| line.starts_with(".TH")).unwrap().trim_end().to_owned();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(title(&page("pausewatch.1")), format!(".TH pausewatch 1 \"\" \"pausewatch {version}\""));
    let [run, follow] = ["pausewatch-run.1", "pausewatch-follow.1"].map(page);
    assert_eq!(title(&run), format!(".TH pausewatch-run 1 \"\" \"pausewatch {version}\""));
    assert!(run.contains("\nExit status:\n.nf\n  124  COMMAND") && run.ends_with("status of COMMAND\n.fi\n"), "{run}");
    assert!(
        follow.contains("object:\n.nf\n  {\"do\": \"start\"") && follow.contains("}\n.fi\nmax_wall and"),
        "{follow}"
    );
}
