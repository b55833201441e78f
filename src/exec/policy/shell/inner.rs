//! Commands that another command amounts to, or runs where no execution shows them.
use super::{
    super::{git::command_of_git, rule::file_name},
    lists::PRIVILEGED,
    word::Word,
};
use std::iter::successors;

/// Programs that are several programs: the first word names one of them.
const MULTICALL: [&str; 5] = ["busybox", "coreutils", "sbase-box", "toybox", "ubase-box"];
/// The option by which GNU's `coreutils` is told which program it is.
const MULTICALL_OPTIONS: [&str; 2] = ["--coreutils-prog=", "--coreutils-prog-shebang="];
/// Commands of git that do the work of `git push`.
const PUSHES: [&str; 2] = ["http-push", "send-pack"];
/// With this option they do a part of the work of a `git push` that runs them.
const PART_OF_PUSH: &str = "--stateless-rpc";
/// The maximum of words after `sudo` that are considered as the first word of a command.
const MAX_PRIVILEGED_WORDS: usize = 64;
/// The maximum of forms of one command (`busybox busybox …`).
const MAX_FORMS: usize = 4;

/// The file names of further programs that may be one of a pattern's.
pub(in crate::exec::policy) fn other_names(pattern: &[Vec<String>]) -> Vec<String> {
    let of_git = |command: &String| {
        let pushes = PUSHES.into_iter().filter(|_| command == "push");
        [command.as_str()].into_iter().chain(pushes).map(|command| format!("git-{command}")).collect::<Vec<_>>()
    };
    let commands = pattern.get(1).filter(|_| pattern[0].iter().any(|head| file_name(head) == "git"));
    MULTICALL.into_iter().map(str::to_owned).chain(commands.into_iter().flatten().flat_map(of_git)).collect()
}

/// The commands that a command may run, or that it is by another name.
pub(in crate::exec::policy) fn inner_commands(words: &[Word]) -> Vec<Vec<Word>> {
    let mut commands = run_with_privileges(words);
    let others: Vec<_> = [words].into_iter().chain(commands.iter().map(Vec::as_slice)).flat_map(other_forms).collect();
    commands.extend(others);
    commands
}

/// The same command with the names of the programs that it is: `busybox rm x` is `rm x`, and `git-push` is `git push`.
pub(super) fn other_forms(words: &[Word]) -> impl Iterator<Item = Vec<Word>> {
    successors(other_form(words), |words| other_form(words)).take(MAX_FORMS)
}

fn other_form(words: &[Word]) -> Option<Vec<Word>> {
    let (head, others) = words.split_first()?;
    let name = file_name(head.text()?);
    if MULTICALL.contains(&name) {
        let is_option = |word: &Word| word.text().is_some_and(|text| text.starts_with('-'));
        let at = others.iter().position(|word| !is_option(word) || program_of_option(word).is_some())?;
        let program = program_of_option(&others[at]).unwrap_or_else(|| others[at].clone());
        return Some([program].into_iter().chain(others[at + 1..].iter().cloned()).collect());
    }
    if let Some(command) = name.strip_prefix("git-") {
        let git = ["git", command].map(|word| Word::Text(word.to_owned()));
        return Some(git.into_iter().chain(others.iter().cloned()).collect());
    }
    let at = (name == "git").then(|| command_of_git(others))? + 1;
    let is_push = words.get(at)?.text().is_some_and(|command| PUSHES.contains(&command));
    let is_part = words.iter().any(|word| word.text() == Some(PART_OF_PUSH));
    (is_push && !is_part).then(|| {
        let mut push = words.to_vec();
        push[at] = Word::Text("push".to_owned());
        push
    })
}

fn program_of_option(word: &Word) -> Option<Word> {
    let text = word.text()?;
    MULTICALL_OPTIONS.iter().find_map(|option| text.strip_prefix(option)).map(|name| Word::Text(name.to_owned()))
}

/// The command that a program like `sudo` may run, which is not judged: any of its words may be the first one of a command.
fn run_with_privileges(words: &[Word]) -> Vec<Vec<Word>> {
    let is_privileged = words.first().and_then(Word::text).is_some_and(|head| PRIVILEGED.contains(&file_name(head)));
    if !is_privileged {
        return Vec::new();
    }
    let parts = words[1..].iter().flat_map(|word| match word.text().and_then(shlex::split) {
        // `su -c 'rm x'`
        Some(parts) => parts.into_iter().map(Word::Text).collect(),
        None => vec![word.clone()],
    });
    let parts: Vec<_> = parts.take(MAX_PRIVILEGED_WORDS).collect();
    (0..parts.len()).map(|from| parts[from..].to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::show, *};

    #[test]
    fn a_command_is_known_by_its_other_names() {
        for (line, forms) in [
            ("busybox rm x", &["rm x"][..]),
            ("/bin/busybox sh -c 'rm x'", &["sh -c 'rm x'"]),
            ("busybox busybox rm x", &["busybox rm x", "rm x"]),
            ("coreutils --coreutils-prog=rm x", &["rm x"]),
            ("toybox --help", &[]),
            ("/usr/lib/git-core/git-push origin", &["git push origin"]),
            ("git-send-pack a b", &["git send-pack a b", "git push a b"]),
            ("git -C x --bare http-push a", &["git -C x --bare push a"]),
            ("git send-pack --stateless-rpc a", &[]),
            ("git -C send-pack", &[]),
            ("git", &[]),
            ("rm x", &[]),
        ] {
            let words: Vec<_> = shlex::split(line).unwrap().into_iter().map(Word::Text).collect();
            assert_eq!(other_forms(&words).map(|words| show(&words)).collect::<Vec<_>>(), forms, "{line}");
        }
    }
}
