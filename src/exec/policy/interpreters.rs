//! The interpreters of a script that is to leave the sandbox.
use super::{
    libraries,
    reach::{Reach, find_program},
    rule::file_name,
};
use std::{ffi::OsStr, fs::File, io::Read, path::Path};

/// Why a script with this line (`#!`) must not leave the sandbox: commands can change an interpreter. `search`: the directories of programs,
/// as in PATH, in which `env` finds it.
pub(super) fn objection(words: &[String], search: &OsStr, reach: &Reach) -> Option<String> {
    let program = words.first()?;
    if reach.has_program(Path::new(program)) {
        return Some(format!("commands can change its interpreter {program}"));
    }
    if let Some(why) = Path::new(program).canonicalize().ok().and_then(|file| libraries::objection(&file, reach)) {
        return Some(why);
    }
    if file_name(program) != "env" {
        return None;
    }
    let unknown = || "what `env` runs for it is not certain".to_owned();
    let Some(name) = words.get(1).and_then(|words| named(words)) else { return Some(unknown()) };
    let found = match name.contains('/') {
        true => Some(name.into()),
        false => find_program(name, &reach.without_reach(search)),
    };
    let Some(found) = found else { return Some(unknown()) };
    // The interpreters of a script are read only for the script that is executed.
    if reach.has_program(&found) || is_script(&found) {
        return Some(format!("commands can change its interpreter {}, or that is a script", found.display()));
    }
    found.canonicalize().ok().and_then(|file| libraries::objection(&file, reach))
}

/// The program in the argument of `env`, if it is certain.
fn named(argument: &str) -> Option<&str> {
    let name = argument.strip_prefix("-S").unwrap_or(argument).split_whitespace().next()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._+-".contains(c);
    (!name.starts_with('-') && name.chars().all(is_plain)).then_some(name)
}

fn is_script(file: &Path) -> bool {
    let mut start = [0; 2];
    File::open(file).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == *b"#!"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        os::unix::fs::{PermissionsExt, symlink},
    };

    #[test]
    fn every_interpreter_must_be_out_of_reach() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let path = |name: &str| root.join(name).into_os_string().into_string().unwrap();
        for name in ["bin", "work"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        for (name, text) in
            [("bin/python", ""), ("bin/env", ""), ("bin/shim", "#!/bin/sh\n"), ("work/ruby", ""), ("work/python", "")]
        {
            fs::write(root.join(name), text).unwrap();
            fs::set_permissions(root.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        symlink(root.join("work/python"), root.join("bin/linked")).unwrap();
        let search = std::env::join_paths([root.join("work"), root.join("bin")]).unwrap();
        let reach = Reach::new(vec![root.join("work")]);
        let env = path("bin/env");
        for (words, leaves) in [
            (vec![path("bin/python")], true),
            (vec![path("bin/linked")], false),
            (vec![path("work/python")], false),
            (vec!["bin/python".to_owned()], false),
            (vec![env.clone(), "python".to_owned()], true),
            (vec![env.clone(), "-S python -I".to_owned()], true),
            (vec![env.clone(), path("work/python")], false),
            (vec![env.clone(), "ruby".to_owned()], false),
            (vec![env.clone(), "shim".to_owned()], false),
            (vec![env.clone(), "linked".to_owned()], false),
            (vec![env.clone(), "-i python".to_owned()], false),
            (vec![env.clone(), "-S A=b python".to_owned()], false),
            (vec![env], false),
        ] {
            assert_eq!(objection(&words, &search, &reach).is_none(), leaves, "{words:?}");
        }
    }
}
