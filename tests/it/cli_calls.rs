//! The commands that make one call each: their effects, refusals, and how they find the coordinator.
use crate::program::{Coordinator, ended, program};
use crate::support::skipped;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

#[test]
fn increment_prints_the_id_that_decrement_takes() {
    let coordinator = Coordinator::start();
    let first = coordinator.run(["increment", "--reason", "Push?", "--holder", "git", "--ttl", "30s"]);
    let second = coordinator.answer(["increment"]);
    assert_eq!((first.code, first.out.lines().count(), second.lines().count()), (Some(0), 1, 1), "{first:?}");
    assert_eq!(
        first.err,
        "pausewatch increment: no exec server watches this thread now: the limits of its commands may keep running\n"
    );

    let closed = coordinator.answer(["decrement", first.out.trim()]);
    assert_eq!(closed, "t: still paused, 1 open elicitation\n");
    let again = coordinator.run(["decrement", first.out.trim()]);
    assert!(again.err.ends_with(" (NOT_FOUND ELICITATION_RELEASED)\n"), "{again:?}");
    assert_eq!((again.code, again.out.as_str()), (Some(1), ""));
    assert_eq!(coordinator.answer(["decrement"]), "t: running\n");
}

#[test]
fn increment_prints_no_warning_when_the_thread_is_watched() {
    let coordinator = Coordinator::start();
    let _watching = coordinator.watch();
    assert_eq!(coordinator.run(["increment"]).err, "");
}

#[test]
fn decrement_at_count_0_is_refused_with_code_and_reason() {
    let refused = Coordinator::start().run(["decrement"]);
    assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""));
    let expected = "pausewatch decrement: thread \"t\" has no open elicitation to close \
                    (FAILED_PRECONDITION NO_OUTSTANDING_ELICITATION)\n";
    assert_eq!(refused.err, expected);
}

#[test]
fn g4_call_with_the_same_request_id_counts_once() {
    let coordinator = Coordinator::start();
    let first = coordinator.answer(["increment", "--request-id", "r", "--reason", "Push?"]);
    assert_eq!(coordinator.answer(["increment", "--request-id", "r", "--reason", "Push?"]), first);
    assert_eq!(coordinator.count(), 1);
    let other = coordinator.run(["increment", "--request-id", "r", "--reason", "Pull?"]);
    assert!(other.code == Some(1) && other.err.ends_with(" (INVALID_ARGUMENT REQUEST_ID_REUSED)\n"), "{other:?}");
    assert_eq!(coordinator.answer(["decrement", "--request-id", "r"]), "t: running\n");
    assert_eq!(coordinator.answer(["decrement", "--request-id", "r"]), "t: running\n");
}

#[test]
fn renew_prints_the_new_end_and_never_reopens() {
    let coordinator = Coordinator::start();
    let id = coordinator.answer(["increment", "--ttl", "10m"]);
    let id = id.trim();
    let renewed = coordinator.answer(["renew", id]);
    assert!(renewed.starts_with(&format!("{id}: open until 2")) && renewed.ends_with("+00:00\n"), "{renewed}");
    let shown = coordinator.answer(["get"]);
    assert!(lease_left(&shown).starts_with("9m") || lease_left(&shown) == "10m00s", "{shown}");
    coordinator.answer(["renew", id, "--ttl", "2h"]);
    let shown = coordinator.answer(["get"]);
    assert!(["1h59m", "2h00m"].contains(&lease_left(&shown)), "{shown}");
    coordinator.answer(["decrement", id]);
    let closed = coordinator.run(["renew", id]);
    assert!(closed.code == Some(1) && closed.err.contains("(NOT_FOUND ELICITATION_RELEASED)"), "{closed:?}");
}

/// The cell LEASE LEFT in the output of `get`, for a thread with one elicitation.
fn lease_left(shown: &str) -> &str {
    shown.lines().nth(2).and_then(|line| line.split_whitespace().nth(2)).unwrap_or_default()
}

#[test]
fn get_shows_the_thread_and_its_elicitations() {
    let coordinator = Coordinator::start();
    assert_eq!(coordinator.answer(["get"]), "t: running; 0.0s paused in all\n");
    let id = coordinator.answer(["increment", "--reason", "Push?", "--holder", "git"]);
    let shown = coordinator.answer(["get"]);
    let lines: Vec<_> = shown.lines().collect();
    assert!(lines[0].starts_with("t: paused for ") && lines[0].contains(", 1 open elicitation; "), "{shown}");
    assert!(lines[1].starts_with("ELICITATION ") && lines[1].ends_with("HOLDER  REASON"), "{shown}");
    assert!(lines[2].starts_with(id.trim()) && lines[2].ends_with("git     Push?"), "{shown}");
}

#[test]
fn bad_usage_exits_with_2_and_a_field_beyond_its_limits_with_1() {
    let coordinator = Coordinator::start();
    for (args, code) in [
        (["increment", "--ttl", "1s"], 0),
        (["increment", "--ttl", "999ms"], 2),
        (["increment", "--ttl", "soon"], 2),
        (["increment", "--nonsense", "1"], 2),
        (["increment", "--thread-id", "a b"], 0),
        (["increment", "--thread-id", "a\nb"], 1),
        (["increment", "--thread-id", ""], 1),
        (["get", "--output", "xml"], 2),
        (["get", "--address", "localhost"], 2),
        (["renew", "--ttl", "1s"], 2),
        (["list", "--config", "/proc/nonexistent/config.toml"], 2),
    ] {
        let ended = coordinator.run(args);
        assert_eq!(ended.code, Some(code), "{args:?}: {ended:?}");
        assert_eq!(ended.err.contains("(INVALID_ARGUMENT INVALID_FIELD)"), code == 1, "{ended:?}");
        assert!(code == 0 || ended.out.is_empty(), "{ended:?}");
    }
}

#[test]
fn text_that_is_not_utf8_is_named() {
    let other = OsStr::from_bytes(b"caf\xe9");
    let reason = OsStr::from_bytes(b"--reason=caf\xe9");
    let [increment, hold, config] = ["increment", "hold", "--config"].map(OsStr::new);
    for (args, name, code) in [
        (&[increment, "--reason".as_ref(), other][..], "--reason", 2),
        // Paths and the command may contain any bytes; the other arguments may not.
        (&[increment, reason, config, other], "--reason", 2),
        (&[increment, "--config".as_ref(), other, "--token".as_ref(), other], "--token", 2),
        (&[hold, config, other, "--thread-id".as_ref(), other, "--".as_ref(), other], "--thread-id", 125),
        (&["token".as_ref(), "create".as_ref(), "--prefix".as_ref(), other], "--prefix", 2),
        (&["decrement".as_ref(), other], "caf\u{fffd}", 2),
    ] {
        let ended = ended(program().args(args));
        let why = format!("error: {name}: not UTF-8; write it in UTF-8, or convert it");
        assert!(ended.code == Some(code) && ended.err.starts_with(&why), "{args:?}: {ended:?}");
        assert!(ended.err.contains(&format!("\nUsage: pausewatch {}", args[0].display())), "{ended:?}");
    }
    assert_eq!(ended(program().args([hold, config, "/dev/null".as_ref(), "true".as_ref(), other])).code, Some(0));
}

#[test]
fn unreachable_coordinator_exits_with_1_and_names_address_and_remedy() {
    for command in ["get", "list", "increment", "decrement", "watch"] {
        let args = [command, "--address", "unix:/proc/nonexistent/p.sock"];
        let ended = ended(program().args(args).env("PAUSEWATCH_THREAD_ID", "t"));
        assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""));
        for part in [command, "unix:/proc/nonexistent/p.sock", "`pausewatch serve`", "--address", "(UNAVAILABLE)\n"] {
            assert!(ended.err.contains(part), "{part}: {ended:?}");
        }
    }
}

/// Something listens there, so the message must not suggest to start another server.
#[test]
fn a_server_that_does_not_answer_is_not_to_be_started() {
    let hanging = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = hanging.local_addr().unwrap().to_string();
    let ended = ended(program().args(["get", "--thread-id", "t", "--address", &address]));
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""));
    for part in ["no answer within 5s", &address, "accepts connections, but does not answer", "(DEADLINE_EXCEEDED)\n"] {
        assert!(ended.err.contains(part), "{part}: {ended:?}");
    }
    assert!(!ended.err.contains("pausewatch serve"), "{ended:?}");
}

/// A web server answers 404, without what gRPC needs.
#[test]
fn what_answers_and_is_no_coordinator_is_called_so() {
    use std::io::{Read, Write};
    let web = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = web.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for connection in web.incoming() {
            let mut connection = connection.unwrap();
            // Frames of HTTP/2: empty SETTINGS, then `:status: 404` for the first stream, which ends (RFC 7541, appendix A).
            connection.write_all(b"\0\0\0\x04\0\0\0\0\0").unwrap();
            let mut read = Vec::new();
            while !read.windows(3).any(|thread_id| thread_id == b"\n\x01t") {
                let mut bytes = [0; 1_024];
                let length = connection.read(&mut bytes).unwrap();
                read.extend_from_slice(&bytes[..length]);
            }
            connection.write_all(b"\0\0\x01\x01\x05\0\0\0\x01\x8d").unwrap();
            let _ = connection.read_to_end(&mut read);
        }
    });
    let ended = ended(program().args(["get", "--thread-id", "t", "--address", &address]));
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""));
    for part in [&address, "404", "what answers there is no coordinator", "(UNIMPLEMENTED)\n"] {
        assert!(ended.err.contains(part), "{part}: {ended:?}");
    }
}

#[test]
fn commands_on_one_thread_require_a_thread() {
    let coordinator = Coordinator::start();
    for command in ["increment", "decrement", "get"] {
        let unnamed = ended(coordinator.command([command]).env("PAUSEWATCH_THREAD_ID", ""));
        assert!(unnamed.code == Some(2) && unnamed.err.contains("--thread-id"), "{unnamed:?}");
    }
    let list = ended(coordinator.command(["list"]).env_remove("PAUSEWATCH_THREAD_ID"));
    assert_eq!(list.out, "No thread is paused.\n");
}

#[test]
fn flag_wins_over_environment_and_environment_over_config_file() {
    let coordinator = Coordinator::start();
    let directory = tempfile::tempdir().unwrap();
    let good = directory.path().join("good.toml");
    let bad = directory.path().join("bad.toml");
    std::fs::write(&good, format!("address = \"{}\"\nthread_id = \"file\"\n", coordinator.address)).unwrap();
    std::fs::write(&bad, "address = \"unix:/proc/nonexistent/p.sock\"\nthread_id = \"file\"\n").unwrap();
    let (good, bad) = (good.to_str().unwrap(), bad.to_str().unwrap());
    let get = |args: &[&str], environment: &[(&str, &str)]| {
        let mut command = program();
        let ended = ended(command.arg("get").args(args).envs(environment.iter().copied()));
        assert_eq!(ended.code, Some(0), "{args:?} {environment:?}: {ended:?}");
        ended.out.split(':').next().unwrap().to_owned()
    };
    let address = coordinator.address.as_str();
    assert_eq!(get(&["--config", good], &[]), "file");
    assert_eq!(get(&[], &[("PAUSEWATCH_CONFIG", good)]), "file");
    assert_eq!(get(&["--config", good], &[("PAUSEWATCH_CONFIG", bad), ("PAUSEWATCH_ADDRESS", "")]), "file");
    let environment = [("PAUSEWATCH_ADDRESS", address), ("PAUSEWATCH_THREAD_ID", "environment")];
    assert_eq!(get(&["--config", bad], &environment), "environment");
    let environment =
        [("PAUSEWATCH_ADDRESS", "unix:/proc/nonexistent/p.sock"), ("PAUSEWATCH_THREAD_ID", "environment")];
    assert_eq!(get(&["--address", address, "--thread-id", "flag"], &environment), "flag");
}

#[test]
fn config_file_in_the_default_place_may_be_missing() {
    let coordinator = Coordinator::start();
    let directory = tempfile::tempdir().unwrap();
    let get = |variable: &str| {
        ended(program().arg("get").env("PAUSEWATCH_ADDRESS", &coordinator.address).env(variable, directory.path()))
    };
    assert_eq!(get("XDG_CONFIG_HOME").code, Some(2), "no thread");
    for (place, variable) in [("pausewatch", "XDG_CONFIG_HOME"), (".config/pausewatch", "HOME")] {
        let place = directory.path().join(place);
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("config.toml"), "thread_id = \"default\"").unwrap();
        assert!(get(variable).out.starts_with("default: "), "{variable}");
        std::fs::write(place.join("config.toml"), "\ntread_id = \"default\"").unwrap();
        let refused = get(variable);
        assert!(refused.err.contains("config.toml: line 2: unknown field `tread_id`"), "{refused:?}");
        assert_eq!(refused.code, Some(2));
    }
}

#[test]
fn config_file_in_the_home_of_another_user_is_ignored_with_a_warning() {
    let coordinator = Coordinator::start();
    let directory = tempfile::tempdir().unwrap();
    let is_root = rustix::process::geteuid().is_root();
    // Root's own home is that of another user too, for others.
    let home = if is_root { directory.path() } else { std::path::Path::new("/root") };
    let foreign = |mut command: std::process::Command| {
        if is_root {
            std::os::unix::process::CommandExt::uid(&mut command, 65_534);
        }
        ended(command.env("HOME", home).current_dir("/"))
    };
    std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    if foreign({
        let mut list = std::process::Command::new("ls");
        list.arg(home).stdin(std::process::Stdio::null());
        list
    })
    .code
        == Some(0)
    {
        return skipped("foreign-home", "this user can read the home of another user");
    }
    for (args, out) in [
        (&["get"][..], "t: running"),
        (&["hold", "--", "echo", "held"], "held"),
        (&["hold", "--require", "--", "echo", "held"], "held"),
        (&["run", "60", "echo", "ran"], "ran"),
        (&["list"], ""),
    ] {
        let mut command = coordinator.command([]);
        command.args(args);
        let done = foreign(command);
        assert!(done.code == Some(0) && done.out.starts_with(out), "{args:?}: {done:?}");
        assert_eq!(done.err.matches("is ignored: Permission denied").count(), 1, "{args:?}: {done:?}");
        assert!(done.err.contains("belongs to another user"), "{args:?}: {done:?}");
    }
    // A file that was named must be read.
    let mut named = coordinator.command(["get"]);
    named.env("PAUSEWATCH_CONFIG", home.join(".config/pausewatch/config.toml"));
    let named = foreign(named);
    assert!(named.code == Some(2) && named.err.contains("Permission denied"), "{named:?}");
}
