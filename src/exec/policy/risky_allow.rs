//! Rules with `allow` that let more run outside the sandbox than they say, or that have no effect.
use super::{
    evaluate::Rules,
    rule::{Decision, file_name},
    settings, shell,
};

/// Programs that run what their arguments, their input, their settings or a key in them say.
const RUNNERS: &[&str] = &[
    // Shells, and programs that start others.
    "ash",
    "bash",
    "busybox",
    "capsh",
    "chroot",
    "chrt",
    "csh",
    "dash",
    "dbus-run-session",
    "elvish",
    "entr",
    "env",
    "expect",
    "faketime",
    "fakeroot",
    "find",
    "firejail",
    "fish",
    "flock",
    "gosu",
    "hyperfine",
    "ionice",
    "ksh",
    "linux32",
    "linux64",
    "mksh",
    "nice",
    "nohup",
    "nsenter",
    "nu",
    "numactl",
    "parallel",
    "perf",
    "pkexec",
    "prlimit",
    "proot",
    "pwsh",
    "rbash",
    "run-parts",
    "runuser",
    "script",
    "setarch",
    "setpriv",
    "setsid",
    "sg",
    "sh",
    "socat",
    "start-stop-daemon",
    "stdbuf",
    "su",
    "sudo",
    "doas",
    "systemd-run",
    "taskset",
    "tcsh",
    "time",
    "timeout",
    "toybox",
    "unshare",
    "valgrind",
    "watch",
    "watchexec",
    "xargs",
    "zsh",
    // Options or files that name programs: `tar --checkpoint-action`, `sort --compress-program`, `split --filter`, `rsync -e`, makefiles, …
    "7z",
    "ansible",
    "ansible-playbook",
    "at",
    "batch",
    "bundle",
    "cargo",
    "cmake",
    "composer",
    "cpio",
    "crontab",
    "docker",
    "gdb",
    "go",
    "gradle",
    "helm",
    "just",
    "kubectl",
    "lldb",
    "ltrace",
    "make",
    "gmake",
    "meson",
    "mvn",
    "ninja",
    "npm",
    "npx",
    "nsjail",
    "openssl",
    "pip",
    "pipx",
    "pnpm",
    "podman",
    "poetry",
    "rake",
    "rsync",
    "scp",
    "screen",
    "sftp",
    "sort",
    "split",
    "sqlite",
    "ssh",
    "strace",
    "tar",
    "bsdtar",
    "gtar",
    "tcpdump",
    "terraform",
    "tmux",
    "tox",
    "uv",
    "uvx",
    "yarn",
    "zip",
    // Interpreters.
    "awk",
    "bun",
    "deno",
    "gawk",
    "guile",
    "irb",
    "java",
    "julia",
    "lua",
    "luajit",
    "mawk",
    "nawk",
    "node",
    "nodejs",
    "perl",
    "php",
    "python",
    "python2",
    "python3",
    "Rscript",
    "ruby",
    "sed",
    "tclsh",
    "wish",
    // Editors.
    "ed",
    "emacs",
    "ex",
    "gvim",
    "helix",
    "hx",
    "joe",
    "kak",
    "mcedit",
    "micro",
    "nano",
    "nvim",
    "pico",
    "vi",
    "view",
    "vim",
    "vimdiff",
    // Pagers.
    "bat",
    "info",
    "less",
    "man",
    "more",
    "most",
    "pg",
    "w3m",
];

/// What the author of such rules should know; one sentence for each program.
pub(crate) fn warnings_about_allow(rules: &Rules) -> Vec<String> {
    let mut warnings = Vec::new();
    for rule in rules.rules.iter().filter(|rule| rule.decision == Decision::Allow) {
        for head in &rule.pattern[0] {
            let name = file_name(head);
            let why = if RUNNERS.contains(&name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.'))
                || RUNNERS.contains(&name)
            {
                "runs other programs outside the sandbox, whatever its arguments, its input or its settings name: use `prompt`"
            } else if settings::is_program(head) {
                "has no effect: its settings, which commands can change, name programs, so it runs inside the sandbox"
            } else if shell::is_builtin(head) {
                "has no effect: the shell runs it itself, inside the sandbox"
            } else {
                continue;
            };
            let warning = format!("{}:{}: `allow` for `{head}` {why}", rule.place.file, rule.place.line);
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allow_that_gives_more_or_nothing_is_reported_once() {
        let of = |rules: &str| warnings_about_allow(&Rules::parse("my.rules", rules).unwrap());
        for name in
            ["bash", "/usr/bin/env", "xargs", "find", "python3.12", "node", "vim", "less", "tar", "ionice", "sqlite3"]
        {
            let warnings = of(&format!("prefix_rule(['{name}', '-x'])"));
            assert!(
                warnings.len() == 1 && warnings[0].contains(&format!("`allow` for `{name}` runs other")),
                "{warnings:?}"
            );
        }
        for name in ["cd", "echo", "git"] {
            assert!(of(&format!("prefix_rule(['{name}'])"))[0].contains("has no effect"), "{name}");
        }
        for rules in ["prefix_rule(['cp'])", "prefix_rule(['bash'], decision='prompt')", "prefix_rule(['cp2'])"] {
            assert_eq!(of(rules), [""; 0], "{rules}");
        }
        assert_eq!(of("prefix_rule([['less', 'more', 'less']])").len(), 2);
    }
}
