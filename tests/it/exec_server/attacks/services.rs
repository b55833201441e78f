//! What a command can act through, whatever the sandbox does: the check lists it. And rules that let more out than they say: loading warns.
use super::{Place, text};
use crate::program::ended;
use std::os::unix::net::UnixListener;

#[test]
fn the_check_lists_the_services_that_a_command_can_reach() {
    let Some(place) = Place::new() else { return };
    let socket = place.path("home/docker.sock");
    let check = |options: &[&str]| {
        let mut server = place.server("");
        server.args(options).arg("--check").env("DOCKER_HOST", format!("unix://{}", socket.display()));
        let checked = ended(server.env("SSH_AUTH_SOCK", place.path("home/none")));
        assert_eq!(checked.code, Some(0), "{checked:?}");
        checked.out
    };
    let listed = format!("\ncommands can act outside the sandbox through: docker ({})\n", socket.display());
    assert!(!check(&[]).contains(&listed), "nobody listens");
    let _listener = UnixListener::bind(&socket).unwrap();
    let out = check(&[]);
    assert!(out.contains(&listed) && !out.contains("home/none"), "{out}");
    assert!(!check(&["--no-sandbox"]).contains("commands can act"));
}

#[test]
fn an_allow_for_what_runs_anything_is_warned_about() {
    let Some(place) = Place::new() else { return };
    let checked = ended(
        place.server("prefix_rule([['bash', 'xargs', 'vim', 'cp']])\nprefix_rule(['git', 'log'])").arg("--check"),
    );
    for name in ["bash", "xargs", "vim"] {
        assert!(
            checked.err.contains(&format!(
                "warning: {}:1: `allow` for `{name}` runs other",
                place.path("outside/my.rules").display()
            )),
            "{checked:?}"
        );
    }
    assert!(
        checked.err.contains(":2: `allow` for `git` has no effect") && !checked.err.contains("`cp`"),
        "{checked:?}"
    );
}

/// A line that is nothing but an allowed program is a line of the sandbox too.
#[test]
fn every_result_says_that_its_command_ran_in_the_sandbox() {
    let Some(place) = Place::new() else { return };
    let answer = place.run(&mut place.client(super::GREET), "greet");
    assert!(text(&answer, "sandbox").ends_with("; nested programs are judged"), "{answer}");
    assert_eq!((&answer["note"], place.made().as_deref()), (&serde_json::Value::Null, Some("\n")), "{answer}");
}
