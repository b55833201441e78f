//! A rule, and whether a command matches it.
use super::{git, shell::Word};
use std::{collections::HashMap, fmt, path::Path};

/// The decision of a rule about a command. The strictest of several counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Decision {
    /// Runs without a question, and outside the sandbox if nothing that commands can change decides what it does.
    Allow,
    /// A person is asked.
    Prompt,
    /// The command does not run.
    Forbidden,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Prompt => "prompt",
            Self::Forbidden => "forbidden",
        })
    }
}

/// Where a rule stands, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) file: String,
    pub(super) line: usize,
    pub(super) column: usize,
}

/// `prefix_rule(…)`: the first words of a command, each with its alternatives.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) pattern: Vec<Vec<String>>,
    pub(super) decision: Decision,
    pub(super) justification: Option<String>,
    pub(super) place: Place,
}

/// The paths at which a program of some name is the one that rules mean: `host_executable(…)`.
pub(super) type Executables = HashMap<String, Vec<String>>;

/// Whether a command matches a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    No,
    /// It depends on the unknown text of a word.
    Maybe,
    /// It matches if the options after the program, each of which may have a value, are skipped.
    AfterOptions,
    /// Git may replace its command by one that matches.
    Replaced,
    Yes,
}

impl Rule {
    pub(super) fn fit(&self, words: &[Word], executables: &Executables) -> Fit {
        let (program, others) = match words.split_first() {
            None => return Fit::No,
            Some((Word::Text(program), _)) if !self.names(program, executables) => return Fit::No,
            Some((Word::Text(_), others)) => (Fit::Yes, others),
            Some((Word::One(_), others)) => (Fit::Maybe, others),
            // The unknown words may be any.
            Some((Word::Many(_), _)) => return Fit::Maybe,
        };
        match begins(others, &self.pattern[1..]) {
            Fit::No if self.decision > Decision::Allow && program == Fit::Yes => self.fit_loosely(words),
            Fit::Yes => program,
            fit => fit,
        }
    }

    /// `words` begin with the program.
    fn fit_loosely(&self, words: &[Word]) -> Fit {
        let (is_git, others) = (words[0].text().is_some_and(|head| file_name(head) == "git"), &words[1..]);
        if self.fits_after_options(others) {
            Fit::AfterOptions
        } else if is_git && self.pattern.get(1).is_some_and(|commands| git::may_replace(others, commands)) {
            Fit::Replaced
        } else {
            Fit::No
        }
    }

    /// `words`: without the program.
    fn fits_after_options(&self, words: &[Word]) -> bool {
        let (pattern, mut at) = (&self.pattern[1..], 0);
        while is_option(words.get(at)) {
            at += 1;
            let rest = [at, at + 1].map(|from| words.get(from..).unwrap_or_default());
            if rest.iter().any(|rest| begins(rest, pattern) != Fit::No) {
                return true;
            }
            at += usize::from(!is_option(words.get(at)));
        }
        false
    }

    /// Whether this rule is about `program`. Rules that prompt or forbid compare the file name, in any directory:
    /// `/bin/rm` is `rm`. Rules that allow accept a path only if `host_executable` names it, because anybody can create
    /// a `./git`.
    fn names(&self, program: &str, executables: &Executables) -> bool {
        let heads = &self.pattern[0];
        if heads.iter().any(|head| head == program) {
            return true;
        }
        let name = file_name(program);
        match self.decision {
            Decision::Allow => {
                let known = executables.get(name).is_some_and(|paths| paths.iter().any(|path| path == program));
                known && heads.iter().any(|head| head == name)
            }
            Decision::Prompt | Decision::Forbidden => heads.iter().any(|head| file_name(head) == name),
        }
    }
}

fn is_option(word: Option<&Word>) -> bool {
    word.and_then(Word::text).is_some_and(|text| text.starts_with('-'))
}

/// Whether the words match the pattern, which does not include the program.
fn begins(words: &[Word], pattern: &[Vec<String>]) -> Fit {
    let mut fit = Fit::Yes;
    for (i, alternatives) in pattern.iter().enumerate() {
        match words.get(i) {
            None => return Fit::No,
            Some(Word::Text(text)) if !alternatives.contains(text) => return Fit::No,
            Some(Word::Text(_)) => {}
            Some(Word::One(_)) => fit = Fit::Maybe,
            // From here on, the words may be any.
            Some(Word::Many(_)) => return Fit::Maybe,
        }
    }
    fit
}

/// The last part of a path, or all of it.
pub(super) fn file_name(program: &str) -> &str {
    Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or(program)
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.pattern.iter().map(|alternatives| alternatives.join("|")).collect();
        write!(f, "{} ({}:{})", words.join(" "), self.place.file, self.place.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(decision: Decision, pattern: &[&[&str]]) -> Rule {
        let pattern = pattern.iter().map(|words| words.iter().map(|word| (*word).to_owned()).collect()).collect();
        Rule { pattern, decision, justification: None, place: Place { file: "x".to_owned(), line: 1, column: 1 } }
    }

    fn fit(rule: &Rule, words: &[&str]) -> Fit {
        let word = |word: &&str| match *word {
            "$*" => Word::Many("$*".to_owned()),
            "$1" => Word::One("$1".to_owned()),
            text => Word::Text(text.to_owned()),
        };
        let executables = [("git".to_owned(), vec!["/usr/bin/git".to_owned()])].into();
        rule.fit(&words.iter().map(word).collect::<Vec<_>>(), &executables)
    }

    #[test]
    fn a_rule_fits_its_words_and_any_after_them() {
        let push = rule(Decision::Prompt, &[&["git"], &["push", "fetch"]]);
        assert_eq!(fit(&push, &["git", "push"]), Fit::Yes);
        assert_eq!(fit(&push, &["git", "fetch", "--all", "$*"]), Fit::Yes);
        assert_eq!(fit(&push, &["git", "status"]), Fit::No);
        assert_eq!(fit(&push, &["git"]), Fit::No);
        assert_eq!(fit(&push, &["git", "pull"]), Fit::No);
        assert_eq!(fit(&push, &["git", "pushy"]), Fit::Replaced);
    }

    #[test]
    fn an_unknown_word_may_be_any() {
        let push = rule(Decision::Prompt, &[&["git"], &["push"], &["origin"]]);
        assert_eq!(fit(&push, &["git", "$1", "origin"]), Fit::Maybe);
        assert_eq!(fit(&push, &["git", "$1", "upstream"]), Fit::No);
        assert_eq!(fit(&push, &["git", "$*", "upstream"]), Fit::Maybe);
        assert_eq!(fit(&push, &["$1"]), Fit::No);
        assert_eq!(fit(&push, &["$*"]), Fit::Maybe);
        assert_eq!(fit(&push, &["ls", "$*"]), Fit::No);
    }

    #[test]
    fn options_before_the_second_word_hide_nothing_from_what_asks_or_forbids() {
        let push = rule(Decision::Prompt, &[&["git"], &["push"]]);
        for words in [
            &["git", "-C", "dir", "push"][..],
            &["git", "--no-pager", "push", "origin"],
            &["git", "-c", "a=b", "--git-dir=x", "-C", "dir", "push"],
            &["git", "-C", "dir", "$1"],
            // Whether the option has a value is not known.
            &["git", "--no-pager", "log", "push"],
        ] {
            assert_eq!(fit(&push, words), Fit::AfterOptions, "{words:?}");
        }
        for words in [
            &["git", "-C", "dir", "log", "push"][..],
            &["git", "log", "-C", "push"],
            &["git", "-C"],
            &["ls", "-C", "push"],
        ] {
            assert_eq!(fit(&push, words), Fit::No, "{words:?}");
        }
        assert_eq!(fit(&rule(Decision::Allow, &[&["git"], &["push"]]), &["git", "-C", "dir", "push"]), Fit::No);
        let forced = rule(Decision::Forbidden, &[&["git"], &["push"], &["-f", "--force"]]);
        assert_eq!(fit(&forced, &["git", "-C", "dir", "push", "-f"]), Fit::AfterOptions);
        assert_eq!(fit(&forced, &["git", "-C", "dir", "push", "origin"]), Fit::No);
    }

    #[test]
    fn a_path_is_forbidden_by_its_name_and_allowed_only_where_it_is_listed() {
        let forbidden = rule(Decision::Forbidden, &[&["git"]]);
        let allowed = rule(Decision::Allow, &[&["git"]]);
        for (program, allow) in
            [("git", Fit::Yes), ("/usr/bin/git", Fit::Yes), ("./git", Fit::No), ("/tmp/git", Fit::No)]
        {
            assert_eq!(fit(&forbidden, &[program]), Fit::Yes, "{program}");
            assert_eq!(fit(&allowed, &[program]), allow, "{program}");
        }
        assert_eq!(fit(&rule(Decision::Forbidden, &[&["/usr/bin/git"]]), &["git"]), Fit::Yes);
        assert_eq!(fit(&rule(Decision::Allow, &[&["/usr/bin/git"]]), &["git"]), Fit::No);
    }
}
