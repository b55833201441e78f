//! A program that loads a library of the project.
use super::{Place, approvals::yes, text};
use crate::exec_server::client::Client;
use std::{fs, path::Path, process::Command};

/// Compiles with the C compiler by which Rust links.
fn compile(text: &str, file: &Path, options: &[&str]) {
    let source = file.with_extension("c");
    fs::write(&source, text).unwrap();
    let built = Command::new("cc").arg(&source).arg("-o").arg(file).args(options).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    fs::remove_file(source).unwrap();
}

/// As a build by CMake leaves it: the program is installed, its RUNPATH names the directory of the build.
#[test]
fn a_program_that_loads_a_library_of_the_project_stays_inside() {
    let Some(place) = Place::new() else { return };
    let made = place.path("outside/made");
    let body =
        format!("FILE *f = fopen(\"{}\", \"a\"); if (f) {{ fputs(\"made\\n\", f); fclose(f); }}", made.display());
    let library = format!("#include <stdio.h>\nvoid greet(void) {{ {body} }}\n");
    fs::create_dir(place.path("lib")).unwrap();
    for directory in ["project", "lib"] {
        compile(&library, &place.path(directory).join("libgreet.so"), &["-shared", "-fPIC"]);
    }
    let tool = |name: &str, run_path: &str| {
        let lib = format!("-L{}", place.path("lib").display());
        let main = "void greet(void);\nint main(void) { greet(); return 0; }\n";
        compile(main, &place.path("bin").join(name), &[&lib, "-lgreet", &format!("-Wl,-rpath,{run_path}")]);
    };
    tool("honest", "$ORIGIN/../lib");
    tool("built", place.path("project").to_str().unwrap());
    tool("relative", &format!("{}:", place.path("none").display()));
    let mut client = place.client("prefix_rule([['honest', 'built', 'relative']])");
    place.assert_leaves(&mut client, "honest");
    for line in ["built", "relative"] {
        place.assert_stays(&mut client, line, "loads code from");
    }
    // A person learns of it before a yes.
    let mut client = Client::start(place.server("prefix_rule(['built'], decision = 'prompt')"));
    let id = client.begin("shell", "t", place.arguments("env built"));
    let question = yes(&mut client);
    assert!(question.contains("loads code from") && question.contains("commands can change"), "{question}");
    let answer = client.answer(id);
    assert!(place.made().is_some(), "{}", text(&answer, "note"));
}
