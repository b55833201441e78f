//! A line whose every word was read, and that runs something else.
use super::{GREET, Place, exists, text};
use serde_json::json;
use std::fs;

#[test]
fn no_shell_leaves_the_sandbox_because_of_what_its_line_says() {
    let Some(place) = Place::new() else { return };
    let rules = "prefix_rule([['ls', 'echo', 'cd', 'printf', 'true']])\nprefix_rule(['greet'])";
    let mut client = place.client(rules);
    for line in [
        // bash removes a backslash before the end of a line before it reads words.
        "ls -d / \"$\\\n(touch OUT/x)\"",
        "ls -d / $\\\n(touch OUT/x)",
        "ls -d / `touch OUT/x`",
        "echo x > OUT/x",
        "printf x > OUT/x",
        "ls > OUT/x",
        "greet > OUT/x",
        "cd OUT && echo x > x",
        "ls() { touch OUT/x; }; ls",
        "trap 'touch OUT/x' EXIT; ls",
    ] {
        let answer = place.run(&mut client, line);
        assert!(!exists(&place.path("outside/x")), "{line}: {answer}");
        assert!(answer["sandbox"].is_string(), "{line}: {answer}");
        place.made();
    }
}

/// The table of docs/policy.md.
#[test]
fn these_lines_run_their_allowed_program_outside() {
    let Some(place) = Place::new() else { return };
    let mut client = place.client(GREET);
    for line in [
        "greet",
        "greet > out",
        "greet >> out 2>&1",
        "greet 2> /dev/null",
        "! greet",
        "greet | cat",
        "echo a | greet",
        "greet & wait",
        "\\greet",
        "LC_ALL=C greet",
        "LANG=C greet 'a b'",
        "COLUMNS=80 greet",
        "echo a; greet",
        "true && greet || false",
        "echo \"$HOME\"; greet",
        "set -e; test -d . && printf x; greet",
        "make -v > version; greet",
        "greet '*' '~' '$x'",
    ] {
        place.assert_leaves(&mut client, line);
    }
    let listed = format!("{GREET}\nhost_executable(name = 'greet', paths = ['{}'])", place.path("bin/greet").display());
    let mut client = place.client(&listed);
    place.assert_leaves(&mut client, &place.path("bin/greet").display().to_string());
    let answer = place.run(&mut client, "greet; greet a");
    assert_eq!(place.made().as_deref(), Some("\na\n"), "{answer}");
}

#[test]
fn these_lines_run_it_inside_and_say_why() {
    let Some(place) = Place::new() else { return };
    fs::write(place.path("project/sourced"), "greet\n").unwrap();
    let mut client = place.client(GREET);
    let full = place.path("bin/greet").display().to_string();
    for (line, why) in [
        ("cd / && greet", "another directory"),
        ("x=1 greet", "has changed the variable x"),
        ("export x=1; greet", "has changed the variable x"),
        ("PATH=.:$PATH greet", "has changed the variable PATH"),
        // A script that computes with it would run the command.
        ("COLUMNS='a[$(touch OUT/made)]' greet", "has changed the variable COLUMNS"),
        ("LINES=x greet", "has changed the variable LINES"),
        ("LC_ALL=/x greet", "has changed the variable LC_ALL"),
        ("PWD=/x greet", "has changed the variable PWD"),
        ("greet *", "do not stand literally in the line"),
        ("greet ~", "do not stand literally in the line"),
        ("greet $HOME", "do not stand literally in the line"),
        ("greet {a,b}", "do not stand literally in the line"),
        ("x=$(greet)", "do not stand literally in the line"),
        ("(greet)", "more than commands"),
        ("if true; then greet; fi", "more than commands"),
        ("for x in a; do greet; done", "more than commands"),
        ("greet <<E\nE", "do not stand literally in the line"),
        (&full, "host_executable"),
        ("sh -c 'greet; true'", "and not the line itself"),
        ("nice greet", "and not the line itself"),
        ("time greet", "do not stand literally in the line"),
        (". ./sourced", ""),
    ] {
        let answer = place.assert_stays(&mut client, line, why);
        assert_eq!(answer["denied"], false, "{line}: {answer}");
    }
    // A profile may change PATH.
    let mut login = place.arguments("touch OUT/made");
    login["login"] = json!(true);
    let answer = place.client("prefix_rule(['touch'])").call("shell", login);
    assert_eq!(place.made(), None, "{answer}");
    assert!(text(&answer, "note").contains("stayed in the sandbox: a login shell starts it"), "{answer}");
}

#[test]
fn a_pattern_does_not_become_an_option() {
    let Some(place) = Place::new() else { return };
    let mut client = place.client("prefix_rule(['tar', 'cf'])");
    fs::write(place.path("project/x.sh"), format!("touch {}\n", place.path("outside/x").display())).unwrap();
    for name in ["--checkpoint=1", "--checkpoint-action=exec=sh x.sh"] {
        fs::write(place.path("project").join(name), "").unwrap();
    }
    for line in ["tar cf /dev/null *", "tar cf /dev/null ./*", "tar cf /dev/null -- *"] {
        let answer = place.assert_stays(&mut client, line, "do not stand literally in the line");
        assert!(!exists(&place.path("outside/x")), "{line}: {answer}");
    }
    let answer = place.run(&mut client, "tar cf OUT/archive.tar x.sh");
    assert!(exists(&place.path("outside/archive.tar")), "{answer}");
}

/// Otherwise a script that the line reads could run it again, after it has changed what the program reads.
#[test]
fn each_command_of_the_line_counts_once() {
    let Some(place) = Place::new() else { return };
    fs::write(place.path("project/sourced"), "greet x; greet x; greet y\n").unwrap();
    let mut client = place.client(GREET);
    let answer = place.run(&mut client, ". ./sourced; greet x");
    assert_eq!(place.made().as_deref(), Some("x\n"), "{answer}");
    assert!(text(&answer, "note").contains("only once"), "{answer}");
    let answer = place.run(&mut client, "greet x; greet x");
    assert_eq!(place.made().as_deref(), Some("x\nx\n"), "{answer}");
}

#[test]
fn the_mask_and_the_limits_are_those_of_the_server() {
    let Some(place) = Place::new() else { return };
    let mut client = place.client(GREET);
    let out = place.path("outside");
    place.program(
        "bin/greet",
        &format!("#!/bin/sh\n{{ umask; ulimit -f; ulimit -n; ulimit -c; }} > {}/made\n", out.display()),
    );
    place.run(&mut client, "greet");
    let expected = place.made().expect("it runs outside");
    let answer = place.run(&mut client, "umask 0; ulimit -f 100; ulimit -n 20; ulimit -c 0; greet");
    assert_eq!(place.made(), Some(expected), "{answer}");
}
