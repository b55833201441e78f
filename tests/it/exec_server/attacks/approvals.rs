//! A yes, and `--when-unable escalate`, take out what the rules ask about, and nothing else of the line.
use super::{Place, exists, text};
use crate::exec_server::client::Client;
use serde_json::{Value, json};
use std::fs;

const RULES: &str = r#"
prefix_rule(pattern = [["touch", "deploy"]], decision = "prompt")
prefix_rule(pattern = ["git", "push"], decision = "prompt")
prefix_rule(pattern = ["rm"], decision = "forbidden", justification = "use trash")
"#;

pub(super) fn yes(client: &mut Client) -> String {
    let asked = client.wait_for("question", |message| message["method"] == "elicitation/create");
    let properties = asked["params"]["requestedSchema"]["properties"].as_object().unwrap();
    let content: Value =
        properties.keys().map(|name| (name.clone(), json!("yes"))).collect::<serde_json::Map<_, _>>().into();
    client.respond(&asked, json!({"action": "accept", "content": content}));
    text(&asked["params"], "message").to_owned()
}

#[test]
fn a_yes_takes_out_only_what_the_rules_ask_about() {
    let Some(place) = Place::new() else { return };
    let mut client = Client::start(place.server(RULES));
    place.program("project/task", "#!/bin/sh\nrm kept; echo > $1/x\n");
    fs::write(place.path("project/kept"), "").unwrap();
    let line = "touch OUT/yes; ./task OUT; echo > OUT/x; true > OUT/x";
    let id = client.begin("shell", "t", place.arguments(line));
    let question = yes(&mut client);
    assert!(question.contains("the rest of the command runs inside"), "{question}");
    let answer = client.answer(id);
    assert!(exists(&place.path("outside/yes")), "{answer}");
    assert!(!exists(&place.path("outside/x")) && exists(&place.path("project/kept")), "{answer}");
    assert!(text(&answer, "note").contains("use trash"), "{answer}");
    assert!(client.come("elicitation/create").is_empty(), "one question for the line");
}

/// What the yes was about has run; and in another way, it was not about it.
#[test]
fn what_else_a_rule_asks_about_in_an_approved_line_is_asked_about_again() {
    let Some(place) = Place::new() else { return };
    let mut client = Client::start(place.server(RULES));
    fs::write(
        place.path("project/sourced"),
        "touch OUT/b\ntouch OUT/b\n".replace("OUT", place.path("outside").to_str().unwrap()),
    )
    .unwrap();
    place.program("project/touch", "#!/bin/sh\n: > \"$1\"\n");
    for line in ["touch OUT/a; . ./sourced", "touch OUT/b; ./task", "./touch OUT/b", "PATH=.:$PATH touch OUT/b"] {
        place.program("project/task", "#!/bin/sh\ntouch made\n");
        let id = client.begin("shell", "t", place.arguments(line));
        let questions: Vec<_> = (0..2).map(|_| yes(&mut client)).collect();
        assert!(
            questions[0].starts_with("Run this command?") && questions[1].starts_with("Run this program?"),
            "{questions:?}"
        );
        if line.contains("./touch") {
            assert!(questions[1].contains("commands can change"), "{}", questions[1]);
        }
        let answer = client.answer(id);
        assert_eq!(answer["exit_code"], 0, "{line}: {answer}");
        let _ = fs::remove_file(place.path("outside/b"));
    }
}

#[test]
fn an_option_takes_out_no_more_than_an_allow() {
    let Some(place) = Place::new() else { return };
    let mut server = place.server(RULES);
    server.args(["--when-unable", "escalate"]);
    let mut client = Client::with(server, "2025-06-18", json!({}));
    let answer = place.run(&mut client, "touch OUT/yes");
    assert!(exists(&place.path("outside/yes")), "{answer}");
    place.program("project/task", "#!/bin/sh\ntouch $1/x\n");
    place.program("project/deploy", "#!/bin/sh\necho > $1/x\n");
    for line in [
        "git push -h; echo > OUT/x",
        "git push -h; /bin/tee OUT/x < /dev/null",
        "./task OUT",
        "./deploy OUT",
        "touch OUT/[x]",
        "for f in OUT/x; do touch $f; done",
    ] {
        let answer = place.run(&mut client, line);
        assert!(!exists(&place.path("outside/x")), "{line}: {answer}");
        assert_eq!(answer["denied"], false, "{line}: {answer}");
    }
    assert!(text(&place.run(&mut client, "./task OUT"), "note").contains("stayed in the sandbox"));
}

/// The path of the directory is the same, but not the directory.
#[test]
fn a_yes_is_about_one_directory() {
    let Some(place) = Place::new() else { return };
    let mut client = Client::start(place.server(RULES));
    place.program("project/task", "#!/bin/sh\ntouch x\n");
    for (line, questions) in
        [("mkdir a; cd a; ../task; ../task", 1), ("mkdir b; cd b; ../task; cd ..; mv b c; mkdir b; cd b; ../task", 2)]
    {
        let id = client.begin("shell", "t", place.arguments(line));
        (0..questions).for_each(|_| _ = yes(&mut client));
        let answer = client.answer(id);
        assert_eq!(answer["exit_code"], 0, "{line}: {answer}");
        assert!(client.come("elicitation/create").is_empty(), "{line}");
    }
}
