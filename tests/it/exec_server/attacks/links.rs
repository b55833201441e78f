//! A link by which a program is found can be made to lead to another program.
use super::{Place, approvals::yes, text};
use crate::exec_server::client::Client;
use serde_json::json;
use std::{env, fs, os::unix::fs::symlink, process::Command};

const RULES: &str = "prefix_rule(['tool'])";

/// Where `tool` is found by a link that commands can change, and what they change.
#[test]
fn a_program_that_is_found_by_a_link_in_reach_stays_inside() {
    let Some(place) = Place::new() else { return };
    let (project, bin) = (place.path("project"), place.path("bin"));
    let touch = fs::canonicalize("/usr/bin/touch").unwrap();
    let made = place.path("outside/made");
    // The project's own directory of programs, as of an active virtual environment.
    fs::create_dir(project.join("programs")).unwrap();
    // A link outside that leads to one in the project.
    symlink(project.join("later"), bin.join("through")).unwrap();
    let dirs = [project.join("programs"), bin.join("directory"), bin.clone()];
    symlink(project.join("elsewhere"), bin.join("directory")).unwrap();
    let set = |case: &str| {
        for path in ["programs/tool", "later", "elsewhere"] {
            let _ = fs::remove_file(project.join(path));
        }
        let _ = fs::remove_file(bin.join("tool"));
        match case {
            "a link in the project" => symlink(&touch, project.join("programs/tool")).unwrap(),
            "a link to a link in the project" => {
                symlink(&touch, project.join("later")).unwrap();
                symlink(bin.join("through"), bin.join("tool")).unwrap();
            }
            "a link in place of a directory" => {
                fs::create_dir_all(place.path("outside/programs")).unwrap();
                let _ = symlink(&touch, place.path("outside/programs/tool"));
                symlink(place.path("outside/programs"), project.join("elsewhere")).unwrap();
            }
            _ => symlink(&touch, bin.join("tool")).unwrap(),
        }
    };
    let with_path = |mut server: Command| {
        let path = server.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, value)| value).unwrap().to_owned();
        server.env("PATH", env::join_paths(dirs.iter().cloned().chain(env::split_paths(&path))).unwrap());
        server
    };
    let mut client = Client::with(with_path(place.server(RULES)), "2025-06-18", json!({}));
    for case in ["a link in the project", "a link to a link in the project", "a link in place of a directory"] {
        set(case);
        place.assert_stays(&mut client, "tool OUT/made", "commands can change");
        // By another path, with the name of the command in the line, which does not run.
        let line = format!("false && tool OUT/made; exec -a tool {} OUT/made", touch.display());
        place.assert_stays(&mut client, &line, "commands can change");
    }
    set("an honest link");
    let answer = place.run(&mut client, "tool OUT/made");
    assert!(made.exists(), "{answer}");
    fs::remove_file(&made).unwrap();

    // After a yes to the line, the program is asked about with this note.
    let mut client = Client::start(with_path(place.server("prefix_rule(['tool'], decision='prompt')")));
    set("a link in the project");
    let id = client.begin("shell", "t", place.arguments("tool OUT/made"));
    yes(&mut client);
    let asked = client.wait_for("question", |message| message["method"] == "elicitation/create");
    assert!(!made.exists() && text(&asked["params"], "message").contains("commands can change"), "{asked}");
    client.respond(&asked, json!({"action": "decline"}));
    let answer = client.answer(id);
    assert!(!made.exists(), "{answer}");
}

/// Whatever the link is called, git runs what its settings name.
#[test]
fn a_link_to_git_stays_inside() {
    let Some(place) = Place::new() else { return };
    let git = env::split_paths(&env::var_os("PATH").unwrap()).map(|at| at.join("git")).find(|file| file.exists());
    symlink(git.expect("git is installed"), place.path("bin/g")).unwrap();
    let mut client = place.client("prefix_rule(['g'])");
    place.assert_stays(&mut client, "g -c alias.x='!touch OUT/made' x", "its settings name");
}
