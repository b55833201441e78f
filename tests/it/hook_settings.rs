//! `pausewatch hook claude install` and `uninstall`: how they change a settings file.
use crate::program::{Ended, ended, program};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

fn hook(home: &Path, args: &[&str]) -> Ended {
    ended(
        program()
            .args(["hook", "claude"])
            .args(args)
            .env("HOME", home)
            .env_remove("CLAUDE_CONFIG_DIR")
            .current_dir(home),
    )
}

const BEFORE: &str =
    "{\n  \"model\": \"opus\",\n  \"permissions\": {\n    \"allow\": [\n      \"Bash(git *)\"\n    ]\n  }\n}\n";

#[test]
fn install_and_uninstall_print_the_difference_and_are_exact() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join(".claude/settings.json");
    fs::create_dir(home.path().join(".claude")).unwrap();
    fs::write(&file, BEFORE).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let dry = hook(home.path(), &["install", "--dry-run"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), BEFORE);
    let installed = hook(home.path(), &["install"]);
    assert_eq!((installed.code, &installed.out, installed.err.as_str()), (Some(0), &dry.out, ""));
    let added = installed.out.lines().filter(|line| line.starts_with('+')).collect::<Vec<_>>().join("\n");
    for part in ["BASH_MAX_TIMEOUT_MS", "PreToolUse", "SessionStart", "hook claude\"", "hook claude clock *)"] {
        assert!(added.contains(part), "{part}: {}", installed.out);
    }
    let after = fs::read_to_string(&file).unwrap();
    assert!(after.starts_with("{\n  \"model\": \"opus\",\n"), "{after}");
    let again = hook(home.path(), &["install"]);
    assert!(again.out.ends_with("settings.json: nothing to change\n"), "{again:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), after);
    let removed = hook(home.path(), &["uninstall"]);
    assert_eq!(removed.code, Some(0));
    assert_eq!(removed.out.lines().filter(|line| line.starts_with('-')).count(), added.lines().count());
    assert_eq!(fs::read_to_string(&file).unwrap(), BEFORE);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(fs::read_dir(home.path().join(".claude")).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn install_creates_the_file_of_the_project() {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(hook(home.path(), &["uninstall", "--project"]).code, Some(0));
    assert_eq!(hook(home.path(), &["uninstall", "--projekt"]).code, Some(2));
    assert!(!home.path().join(".claude").exists());
    let installed = hook(home.path(), &["install", "--project"]);
    assert_eq!((installed.code, installed.err.as_str()), (Some(0), ""));
    let text = fs::read_to_string(home.path().join(".claude/settings.json")).unwrap();
    assert!(text.contains("hook claude"), "{text}");
}

#[test]
fn a_link_stays_a_link() {
    let home = tempfile::tempdir().unwrap();
    let (directory, target) = (home.path().join(".claude"), home.path().join("dotfiles.json"));
    fs::create_dir(&directory).unwrap();
    symlink("../dotfiles.json", directory.join("settings.json")).unwrap();
    for _ in 0..2 {
        assert_eq!(hook(home.path(), &["install"]).code, Some(0));
        assert!(fs::read_to_string(&target).unwrap().contains("hook claude"));
        assert!(directory.join("settings.json").is_symlink());
    }
}

#[test]
fn settings_that_cannot_be_changed_stay_as_they_are() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join(".claude/settings.json");
    fs::create_dir(home.path().join(".claude")).unwrap();
    for bad in ["", "{", "{\"a\": 1,}", "// mine\n{}", "[]", "{\"hooks\": []}", "{\"env\": \"x\"}"] {
        fs::write(&file, bad).unwrap();
        let refused = hook(home.path(), &["install"]);
        assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""), "{bad}: {refused:?}");
        assert!(refused.err.contains("settings.json") && refused.err.contains("not changed"), "{bad}: {refused:?}");
        assert_eq!(fs::read_to_string(&file).unwrap(), bad);
    }
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_eq!(hook(home.path(), &["install"]).code, Some(1));
    assert_eq!(ended(program().args(["hook", "claude", "install", "--nonsense"])).code, Some(2));
    // Exit code 2 would block the tool.
    for wrong in [&["hook", "claude", "--nonsense"][..], &["hook", "clod"], &["hook"]] {
        assert_eq!(ended(program().args(wrong)).code, Some(1), "{wrong:?}");
    }
    // As for any other failure to start a clock.
    for wrong in [&["clock", "soon"][..], &["clock"], &["clock-guard"], &["clock-watch", "--limit", "1s"]] {
        assert_eq!(ended(program().args(["hook", "claude"]).args(wrong)).code, Some(125), "{wrong:?}");
    }
}

#[test]
fn a_maximum_that_a_person_set_stays() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join(".claude/settings.json");
    fs::create_dir(home.path().join(".claude")).unwrap();
    let before = "{\n  \"env\": {\n    \"BASH_MAX_TIMEOUT_MS\": \"900000\"\n  }\n}\n";
    fs::write(&file, before).unwrap();
    let installed = hook(home.path(), &["install"]);
    assert_eq!(installed.code, Some(0));
    assert!(installed.err.contains("BASH_MAX_TIMEOUT_MS is \"900000\" here"), "{installed:?}");
    hook(home.path(), &["uninstall"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
}
