//! An allowed script is also what its interpreter is, and its file may have another name.
use super::{GREET, Place};
use std::{fs, os::unix::fs::symlink};

#[test]
fn a_script_whose_interpreter_commands_can_change_stays_inside() {
    let Some(place) = Place::new() else { return };
    let made = place.path("outside/made");
    let shell = format!("#!/bin/sh\necho >> {}\n", made.display());
    for name in ["project/sh", "bin/outer"] {
        place.program(name, &shell);
    }
    symlink(place.path("project/sh"), place.path("bin/link")).unwrap();
    symlink("/bin/sh", place.path("project/system")).unwrap();
    symlink(place.path("project/system"), place.path("bin/through")).unwrap();
    place.program("bin/inner", &format!("#!{}\n", place.path("project/sh").display()));
    let mut client = place.client(GREET);
    let body = format!("echo >> {}", made.display());
    for interpreter in ["project/sh", "bin/link", "bin/through", "bin/inner", "project/system"] {
        place.program("bin/greet", &format!("#!{}\n{body}\n", place.path(interpreter).display()));
        place.assert_stays(&mut client, "greet", "interpreter");
    }
    place.program("project/planted", &shell);
    for interpreter in
        [format!("/usr/bin/env {}", place.path("project/planted").display()), "/usr/bin/env -i planted".to_owned()]
    {
        place.program("bin/greet", &format!("#!{interpreter}\n{body}\n"));
        place.assert_stays(&mut client, "greet", "");
    }
    for interpreter in ["/bin/sh", "/usr/bin/env sh", "/usr/bin/env -S sh -e"] {
        place.program("bin/greet", &format!("#!{interpreter}\n{body}\n"));
        place.assert_leaves(&mut client, "greet");
    }
}

#[test]
fn a_program_with_another_name_that_commands_can_write_stays_inside() {
    let Some(place) = Place::new() else { return };
    let mut client = place.client(GREET);
    place.assert_leaves(&mut client, "greet");
    fs::hard_link(place.path("bin/greet"), place.path("project/other")).unwrap();
    place.assert_stays(&mut client, "greet", "commands can change");
    place.assert_stays(&mut client, "chmod 555 other; greet", "commands can change");
    fs::remove_file(place.path("project/other")).unwrap();
    place.assert_leaves(&mut client, "greet");
}
