//! Programs whose paths mean another file for the command than for the supervisor: the supervisor must judge the file
//! that the command executes.
//!
//! These run outside a sandbox, because Landlock refuses mounts.
use super::{Judged, RULES, can_judge, compiled, text};
use crate::{
    program::{Ended, ended, program},
    support::skipped,
};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;

/// `plain/tool` is a harmless script, `links/tool` a link to `rm`, and `kept` is the file that must not be removed.
struct Views {
    directory: TempDir,
    views: PathBuf,
}

impl Views {
    /// `None`: this system cannot judge programs, or users may not create namespaces.
    fn new() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("a.rules"), RULES).unwrap();
        if !can_judge(&path("a.rules")) {
            return None;
        }
        fs::create_dir(path("plain")).unwrap();
        fs::create_dir(path("links")).unwrap();
        fs::write(path("plain/tool"), "#!/bin/sh\necho plain\n").unwrap();
        fs::set_permissions(path("plain/tool"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink("/bin/rm", path("links/tool")).unwrap();
        let namespaces = Command::new("unshare").args(["-Urm", "mount", "--bind", "/bin", "/bin"]).output();
        match namespaces {
            Ok(ran) if ran.status.success() => {}
            other => {
                skipped("namespaces", format!("{other:?}"));
                return None;
            }
        }
        let views = compiled("views.c", directory.path());
        Some(Self { directory, views })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A command line that changes its view and then removes `kept` by the path of a tool.
    fn words(&self, how: &str, of: &str, onto: &str, tool: &str) -> Vec<String> {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let paths = [of, onto, tool, "kept"].map(|name| text(&self.path(name)));
        [text(&self.views), how.to_owned()].into_iter().chain(paths).collect()
    }

    /// The command line of `run --rules` with a command.
    fn judged(&self, command: &[String]) -> Vec<String> {
        let program = program();
        let rules = self.path("a.rules");
        let words = [program.get_program().to_str().unwrap(), "run", "--private", "--rules", rules.to_str().unwrap()];
        let words = words.into_iter().chain(["1m"]).map(str::to_owned);
        words.chain(command.iter().cloned()).collect()
    }

    /// Runs a command twice: directly, when it must remove the file, and judged, when it must not.
    fn assert_judged(&self, command: &[String], run: impl Fn(&[String]) -> Ended) {
        let kept = self.path("kept");
        fs::write(&kept, "").unwrap();
        let ran = run(command);
        assert!(!kept.exists(), "without rules, it must remove the file: {command:?}: {ran:?}");
        fs::write(&kept, "").unwrap();
        let ran = run(&self.judged(command));
        assert!(kept.exists() && ran.err.contains("use trash") && ran.code == Some(1), "{command:?}: {ran:?}");
    }
}

/// Runs a command line, without the environment of the test run.
fn run(words: &[String]) -> Ended {
    ended(&mut command(words))
}

fn command(words: &[String]) -> Command {
    let mut clean = Command::new(&words[0]);
    clean.args(&words[1..]);
    for (name, value) in program().get_envs() {
        match value {
            Some(value) => clean.env(name, value),
            None => clean.env_remove(name),
        };
    }
    clean
}

/// Runs a command line in its own mount namespace, through a script that has it as arguments.
fn in_namespace(script: &str, words: &[String]) -> Ended {
    let start = ["unshare", "-Urm", "sh", "-c", script, "sh"].map(str::to_owned);
    run(&[&start, words].concat())
}

#[test]
fn a_program_is_judged_by_the_file_in_the_mount_namespace_of_its_process() {
    let Some(views) = Views::new() else { return };
    for how in ["unshare", "clone", "clone3", "move_mount"] {
        views.assert_judged(&views.words(how, "links", "plain", "plain/tool"), run);
    }
}

#[test]
fn a_program_is_judged_by_the_file_in_a_namespace_that_its_process_enters() {
    let Some(views) = Views::new() else { return };
    let (of, onto) = (views.path("links"), views.path("plain"));
    let script = "mount --bind \"$1\" \"$2\" && echo ready && read x";
    let mut other = Command::new("unshare");
    other.args(["-Urm", "sh", "-c", script, "sh"]).arg(of).arg(onto);
    let mut other = other.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = [0; 6];
    std::io::Read::read_exact(other.stdout.as_mut().unwrap(), &mut ready).unwrap();
    let other = Killed(other);
    let process = other.0.id().to_string();
    views.assert_judged(&views.words(&process, "links", "plain", "plain/tool"), run);
}

/// Kills and reaps the child when it is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_program_is_judged_by_the_file_that_unmounting_uncovers() {
    let Some(views) = Views::new() else { return };
    let (plain, links) = (views.path("plain"), views.path("links"));
    let script = format!("mount --bind {} {} && exec \"$@\"", plain.display(), links.display());
    let words = views.words("umount", "plain", "links", "links/tool");
    views.assert_judged(&words, |words| in_namespace(&script, words));
}

/// The namespace is created by a call whose flags the filter cannot see, and then another process mounts something in
/// ours.
#[test]
fn a_program_is_judged_by_the_file_that_only_its_namespace_still_shows() {
    let Some(views) = Views::new() else { return };
    let [plain, links, ready, go] =
        ["plain", "links", "ready", "go"].map(|name| views.path(name).display().to_string());
    let script = format!(
        "rm -f {ready} {go}
         \"$@\" & while ! [ -e {ready} ]; do sleep 0.01; done
         mount --bind {plain} {links} && touch {go} && wait $!"
    );
    let words = views.words("wait", "ready", "go", "links/tool");
    views.assert_judged(&words, |words| in_namespace(&script, words));
}

#[test]
fn a_program_is_judged_by_the_file_below_the_root_directory_of_its_process() {
    let Some(views) = Views::new() else { return };
    fs::create_dir(views.path("plain/bin")).unwrap();
    // In our root directory, the same path leads to a harmless program. The kernel would not execute this file.
    symlink("rm", views.path("plain/bin/true")).unwrap();
    fs::write(views.path("plain/bin/rm"), "neither a program nor a script\n").unwrap();
    fs::set_permissions(views.path("plain/bin/rm"), fs::Permissions::from_mode(0o755)).unwrap();
    let mut words = views.words("chroot", "links", "plain", "plain/tool");
    words[4] = "/bin/true".to_owned();
    let ran = run(&words);
    assert!(ran.code == Some(126) && ran.err.contains("Exec format error"), "{ran:?}");
    let ran = run(&views.judged(&words));
    let note = "/bin/true was not executed: it has another root directory";
    assert!(ran.code == Some(126) && ran.err.contains("Permission denied") && ran.err.contains(note), "{ran:?}");
}

/// In a view that may differ, paths are looked up differently; what runs in the sandbox, and what is approved outside
/// it, stays the same.
#[test]
fn a_command_goes_on_as_before_after_its_view_may_differ() {
    let Some(mut judged) = Judged::start() else { return };
    let kept = judged.kept();
    let answer = judged.run_approved(
        "unshare -U true || exit 9; echo in; ./no; echo $?; rm kept; echo $?; cat task > out; cat out | head -n 1",
    );
    if answer["exit_code"] == 9 {
        return skipped("namespaces", &answer);
    }
    let output = text(&answer, "output");
    assert!(output.starts_with("in\n") && output.contains("127\n") && output.contains("use trash"), "{answer}");
    assert!(output.ends_with("1\n#!/bin/sh\n") && kept.exists(), "{answer}");
}
