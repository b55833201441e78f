//! A descriptor that a command has opened for reading, or of a directory, is more outside than inside.
use super::{GREET, Place, text};
use std::{fs, os::unix::fs::symlink};

#[test]
fn a_program_gets_no_descriptor_by_which_it_could_write_more_than_its_command() {
    let Some(place) = Place::new() else { return };
    let out = place.path("outside");
    let secret = out.join("secret");
    fs::write(&secret, "old").unwrap();
    symlink(&secret, place.path("project/link")).unwrap();
    let greet = "#!/bin/sh\nfor n in 0 1 2 3 9; do echo new > /dev/fd/$n; done 2> /dev/null\necho >> OUT/made\n";
    place.program("bin/greet", &greet.replace("OUT", out.to_str().unwrap()));
    let mut client = place.client(&format!("{GREET}\nprefix_rule(['tee'])"));
    for (line, why) in [
        ("greet 2< OUT/secret", "standard error is not open for writing"),
        ("greet 1< OUT/secret", "standard output is not open for writing"),
        ("greet < OUT/secret", "it could write the file that is its standard input"),
        ("greet < link", "it could write the file that is its standard input"),
        ("exec 7< OUT/secret; greet <&7", "it could write the file that is its standard input"),
        ("greet < OUT", "its standard input is a directory"),
        ("greet <&-", "its standard input is closed"),
        ("greet >&-", "its standard output is closed"),
        ("exec 2>&-; greet", "its standard error is closed"),
        ("tee /dev/stdout 1< OUT/secret", "standard output is not open for writing"),
    ] {
        place.assert_stays(&mut client, line, why);
        assert_eq!(fs::read_to_string(&secret).unwrap(), "old", "{line}");
    }
    fs::write(place.path("project/own"), "old").unwrap();
    for line in [
        "greet < own",
        "greet > out",
        "greet 3< OUT/secret 9< OUT/secret",
        "exec 9< OUT/secret; greet",
        "greet < /dev/null",
        "echo | greet",
    ] {
        place.assert_leaves(&mut client, line);
        assert_eq!(fs::read_to_string(&secret).unwrap(), "old", "{line}");
    }
}

#[test]
fn no_other_descriptor_goes_along() {
    let Some(place) = Place::new() else { return };
    place.program("bin/greet", "#!/bin/sh\nls -l /proc/self/fd; ls /proc/$$/fd\n");
    let answer = place.run(&mut place.client(GREET), "exec 5< /etc 63< /dev/null; greet");
    let output = text(&answer, "output");
    assert!(!output.contains("/etc") && !output.contains(" 63 -> ") && !output.contains("\n63\n"), "{answer}");
}
