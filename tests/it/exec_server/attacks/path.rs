//! An allowed program finds others in PATH, where commands may have put them.
use super::{GREET, Place};
use std::{env, fs};

#[test]
fn outside_nothing_is_found_where_commands_can_put_it() {
    let Some(place) = Place::new() else { return };
    fs::create_dir(place.path("project/venv")).unwrap();
    let out = place.path("outside");
    place.program("bin/greet", "#!/bin/sh\nhelper\n");
    place.program("bin/helper", &format!("#!/bin/sh\necho \"$PATH\" > {}/made\n", out.display()));
    let mut server = place.server(GREET);
    let path = server.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, value)| value).unwrap().to_owned();
    let before = [place.path("project/venv"), "".into(), "project".into()];
    server.env("PATH", env::join_paths(before.into_iter().chain(env::split_paths(&path))).unwrap());
    let mut client = super::Client::with(server, "2025-06-18", serde_json::json!({}));
    let planted = format!("#!/bin/sh\necho planted > {}/x\n", out.display());
    for name in ["project/venv/helper", "project/helper"] {
        place.program(name, &planted);
    }
    let answer = place.run(&mut client, "greet");
    assert_eq!(place.made().as_deref(), Some(&*format!("{}\n", path.to_str().unwrap())), "{answer}");
    assert!(!out.join("x").exists(), "{answer}");
    place.program("project/venv/greet", &planted);
    place.assert_stays(&mut client, "greet", "commands can change");
    assert!(!out.join("x").exists());
}
