//! Programs that run what the settings of a project name.
use super::{rule::file_name, shell::Word};

/// Their settings lie in the project's directory, so commands in the sandbox can write them: `.git/config` names a monitor, a
/// pager, filters and hooks, and any directory may become a repository.
const PROGRAMS: [&str; 6] = ["git", "gitk", "tig", "gh", "hg", "jj"];

/// Whether the command may run programs that a command in the sandbox has named: it is such a program, or may run one.
pub(super) fn run_programs(words: &[Word]) -> bool {
    words.iter().filter_map(Word::text).any(is_program)
}

/// Whether it is such a program.
pub(super) fn is_program(word: &str) -> bool {
    let name = file_name(word);
    PROGRAMS.contains(&name) || name.starts_with("git-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_known_by_their_names() {
        for (program, known) in [("git", true), ("/usr/bin/git", true), ("git-status", true), ("ls", false)] {
            assert_eq!(run_programs(&[Word::Text(program.to_owned())]), known, "{program}");
        }
    }
}
