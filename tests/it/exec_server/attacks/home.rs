//! Programs load code and settings from HOME: `usercustomize.py`, `.npmrc`, `.config/git/config`.
use super::{GREET, Place};
use crate::program::ended;
use serde_json::json;
use std::fs;

#[test]
fn nothing_leaves_if_commands_can_write_the_settings_of_programs() {
    let Some(place) = Place::new() else { return };
    let (project, home) = (place.path("project"), place.path("home"));
    fs::create_dir_all(home.join(".config")).unwrap();
    for (name, value, leaves) in [
        ("HOME", home.clone(), true),
        ("HOME", project.clone(), false),
        ("HOME", project.join("sub"), false),
        ("HOME", "/tmp".into(), false),
        ("XDG_CONFIG_HOME", project.join(".config"), false),
        ("XDG_CONFIG_HOME", home.join("other"), true),
        ("XDG_DATA_DIRS", format!("/usr/share:{}", project.display()).into(), false),
        ("XDG_DATA_HOME", "".into(), true),
        ("LD_LIBRARY_PATH", place.path("outside/lib"), true),
        ("LD_LIBRARY_PATH", format!("{0}/lib:{0}/project", place.root.display()).into(), false),
        ("LD_LIBRARY_PATH", format!("{}/lib:", place.root.display()).into(), false),
        ("BASH_ENV", project.join("env"), false),
        ("NODE_OPTIONS", format!("--require {}/.pnp.cjs", project.display()).into(), false),
        ("NODE_OPTIONS", "--max-old-space-size=4096".into(), true),
        ("RUBYOPT", format!("-r{}/x.rb", project.display()).into(), false),
        ("PYTHONPYCACHEPREFIX", "/tmp/pyc".into(), false),
        ("PYTHONUSERBASE", project.join("base"), false),
        ("JAVA_TOOL_OPTIONS", "-javaagent:x/agent.jar".into(), false),
    ] {
        let mut server = place.server(GREET);
        server.env(name, &value);
        let mut client = super::Client::with(server, "2025-06-18", json!({}));
        let case = format!("{name}={}", value.display());
        match leaves {
            true => place.assert_leaves(&mut client, "greet"),
            false => _ = place.assert_stays(&mut client, "greet", &format!("{name} names ")),
        }
        let mut check = place.server(GREET);
        let checked = ended(check.arg("--check").env(name, &value));
        let is_said = checked.err.contains(&format!("warning: {name} names "));
        assert_eq!(is_said, !leaves, "{case}: {checked:?}");
    }
    let mut server = place.server(GREET);
    server.arg("--writable").arg(home.join(".config"));
    let mut client = super::Client::with(server, "2025-06-18", json!({}));
    place.assert_stays(&mut client, "greet", "XDG_CONFIG_HOME names ");
}
