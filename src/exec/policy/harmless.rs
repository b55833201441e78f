//! Environment variables that change at most the look of a program's output.
//!
//! 1. The value counts as well as the name: a shell script that computes with COLUMNS runs the command in `a[$(command)]`.
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

/// Whether no program does anything else because a command line has changed this variable. `value`: `None`, the line has removed it.
/// `program`: the path of the program that gets it; `workdir`: its directory.
pub(crate) fn is_harmless(name: &OsStr, value: Option<&OsStr>, program: &Path, workdir: &Path) -> bool {
    let is_plain = |more: &[u8]| {
        value.is_none_or(|value| {
            let mut bytes = value.as_bytes().iter();
            value.len() <= 4_096 && bytes.all(|byte| byte.is_ascii_alphanumeric() || more.contains(byte))
        })
    };
    let is_number = || value.is_none_or(|value| value.len() <= 9 && value.as_bytes().iter().all(u8::is_ascii_digit));
    match name.to_str() {
        Some("COLUMNS" | "LINES" | "SHLVL") => is_number(),
        // `LANGUAGE` is not one of them: it can make a program load translated texts, with their formats, from any directory.
        Some("LANG" | "NO_COLOR") => is_plain(b"_.@-"),
        Some(name) if name.starts_with("LC_") => is_plain(b"_.@-"),
        Some("PWD") => value.is_none_or(|value| Path::new(value) == workdir),
        // bash sets it to the path of the program.
        Some("_") => value.is_none_or(|value| Path::new(value) == program) || is_plain(b"_./+-"),
        Some("OLDPWD") => is_plain(b"_./+-"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_harmless_variable_has_a_harmless_value() {
        let judged = |name: &str, value: Option<&str>| {
            is_harmless(name.as_ref(), value.map(OsStr::new), Path::new("/opt/my tools/x"), Path::new("/my work"))
        };
        for name in ["COLUMNS", "LINES", "SHLVL", "LANG", "LC_ALL", "LC_TIME", "NO_COLOR", "PWD", "OLDPWD", "_"] {
            assert!(judged(name, None), "{name} is removed");
            for value in ["a[$(touch x)]", "`x`", "a\nb", "/x;y", "a b", "PATH=0"] {
                assert!(!judged(name, Some(value)), "{name}={value}");
            }
        }
        for (name, value) in [
            ("COLUMNS", "80"),
            ("SHLVL", "2"),
            ("LANG", "de_DE.UTF-8"),
            ("LC_ALL", "C"),
            ("LC_TIME", "sr_RS@latin"),
            ("NO_COLOR", "1"),
            ("NO_COLOR", ""),
            ("PWD", "/my work"),
            ("OLDPWD", "/home/me/x-1.0"),
            ("_", "/usr/bin/x"),
            ("_", "/opt/my tools/x"),
        ] {
            assert!(judged(name, Some(value)), "{name}={value}");
        }
        for (name, value) in [
            ("COLUMNS", "PATH"),
            ("LINES", "-1"),
            ("LC_ALL", "/x"),
            ("LANG", "../x"),
            ("PWD", "/elsewhere"),
            ("LANGUAGE", "C"),
            ("PATH", "/usr/bin"),
            ("LD_PRELOAD", "x"),
        ] {
            assert!(!judged(name, Some(value)), "{name}={value}");
        }
        assert!(!judged("LANGUAGE", None) && !judged("HOME", None));
    }
}
