//! Commands of git that a rule about another command of git may be about: git replaces names that it does not know, by
//! an alias of its settings, or (with `help.autocorrect`) by the most similar command. No execution shows that.
use super::shell::Word;

/// The commands of git, which are never replaced.
const COMMANDS: &str = "\
    add am annotate apply archimport archive backfill bisect blame branch bugreport bundle cat-file check-attr \
    check-ignore check-mailmap check-ref-format checkout checkout-index cherry cherry-pick citool clean clone column \
    commit commit-graph commit-tree config count-objects credential credential-cache credential-store cvsexportcommit \
    cvsimport cvsserver daemon describe diagnose diff diff-files diff-index diff-pairs diff-tree difftool fast-export \
    fast-import fetch fetch-pack filter-branch fmt-merge-msg for-each-ref for-each-repo format-patch fsck fsck-objects \
    gc get-tar-commit-id gitk grep gui hash-object help hook http-backend http-fetch http-push imap-send index-pack \
    init init-db instaweb interpret-trailers last-modified lfs log ls-files ls-remote ls-tree mailinfo mailsplit \
    maintenance merge merge-base merge-file merge-index merge-octopus merge-one-file merge-ours merge-recursive \
    merge-resolve merge-subtree merge-tree mergetool mktag mktree multi-pack-index mv name-rev notes p4 pack-objects \
    pack-redundant pack-refs patch-id pickaxe prune prune-packed pull push quiltimport range-diff read-tree rebase \
    receive-pack reflog refs remote remote-ext remote-fd repack replace replay repo request-pull rerere reset restore \
    rev-list rev-parse revert rm scalar send-email send-pack shell shortlog show show-branch show-index show-ref \
    sparse-checkout stage stash status stripspace submodule subtree svn switch symbolic-ref tag unpack-file \
    unpack-objects update-index update-ref update-server-info upload-archive upload-pack var verify-commit verify-pack \
    verify-tag version whatchanged worktree write-tree";
/// Options of git before its command that have a value of their own.
const GIT_OPTIONS_WITH_VALUE: [&str; 8] =
    ["-C", "-c", "--attr-source", "--config-env", "--git-dir", "--namespace", "--super-prefix", "--work-tree"];
/// The names of settings that replace commands begin with these.
const REPLACING_SETTINGS: [&str; 2] = ["alias.", "help.autocorrect"];
/// Longer names are not similar to a command.
const MAX_LENGTH: usize = 32;
/// Git replaces a name only by a command whose distance is less: `help.c`.
const MAX_DISTANCE: usize = 7;

/// The place of git's command among the words after `git`; their number if there is none.
pub(super) fn command_of_git(words: &[Word]) -> usize {
    let is_option = |word: &&Word| word.text().is_some_and(|text| text.starts_with('-'));
    let mut at = 0;
    while let Some(option) = words.get(at).filter(is_option) {
        at += 1 + usize::from(option.text().is_some_and(|text| GIT_OPTIONS_WITH_VALUE.contains(&text)));
    }
    at.min(words.len())
}

/// Whether git may replace its command, in the words after `git`, by one of `commands`.
pub(super) fn may_replace(words: &[Word], commands: &[String]) -> bool {
    let at = command_of_git(words);
    let Some(name) = words.get(at).and_then(Word::text) else { return false };
    if COMMANDS.split_whitespace().any(|command| command == name) || commands.iter().any(|command| command == name) {
        return false;
    }
    let sets = |word: &Word| {
        let text = word.text().unwrap_or_default().to_ascii_lowercase();
        let setting = text.strip_prefix("--config-env=").unwrap_or(&text);
        REPLACING_SETTINGS.iter().any(|name| setting.starts_with(name))
    };
    let least = || COMMANDS.split_whitespace().map(|command| distance(name, command)).min().unwrap_or(MAX_DISTANCE);
    let is_most_similar = |command: &String| {
        let distance = distance(name, command);
        distance < MAX_DISTANCE && distance <= least()
    };
    words[..at].iter().any(sets) || (name.len() <= MAX_LENGTH && commands.iter().any(is_most_similar))
}

/// How git measures it: 0 if the name is the start of the command; else, added to 1, the cheapest changes that turn the
/// name into the command: exchanged neighbours cost 0, an added character 1, another character 2, a removed one 3.
fn distance(name: &str, command: &str) -> usize {
    if command.starts_with(name) {
        return 0;
    }
    let (name, command) = (name.as_bytes(), command.as_bytes());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=command.len()).collect();
    for i in 0..name.len() {
        let mut row = vec![(i + 1) * 3];
        for j in 0..command.len() {
            let mut least = last[j] + if name[i] == command[j] { 0 } else { 2 };
            if i > 0 && j > 0 && name[i - 1] == command[j] && name[i] == command[j - 1] {
                least = least.min(before[j - 1]);
            }
            row.push(least.min(last[j + 1] + 3).min(row[j] + 1));
        }
        before = std::mem::replace(&mut last, row);
    }
    1 + last[command.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_replaced_by_the_most_similar_command_or_by_an_alias() {
        for (line, is_replaced) in [
            ("psuh", true),
            ("pusg origin", true),
            ("pus", true),
            ("-C push psuh", true),
            ("-c Alias.x=push x", true),
            ("--config-env alias.x=X x", true),
            ("--config-env=help.autocorrect=X x", true),
            ("-c help.autocorrect=1 commit", false),
            ("-c user.name=x st", false),
            ("st", false),
            ("lfs", false),
            ("pull", false),
            ("push", false),
            ("stats", false),
            ("rebsae", false),
            ("", false),
        ] {
            let words: Vec<_> = line.split_whitespace().map(|word| Word::Text(word.to_owned())).collect();
            assert_eq!(may_replace(&words, &["push".to_owned()]), is_replaced, "{line}");
        }
    }
}
