//! Reads a command line: finds the commands whose words are known before it runs, and every reason to doubt that these
//! are all.
//!
//! Every program that a command executes is judged at its execution. The text of the line is read for what
//! execution does not show, or shows too late: an allowed line, a forbidden command after others, one question for
//! the whole line, builtins, and programs that run others with more privileges.
//!
//! 1. A word counts as a text only if every shell expands it to exactly this text, whatever the variables and files
//!    are.
//! 2. Commands are found wherever they are: nobody knows in advance which of them will run.
//! 3. Everything except plain words joined by `&&`, `||`, `;`, `|` and `&` is a doubt. Some of it is still read, as far
//!    as its meaning is certain.
//! 4. Reading takes linear time in the length of the line.
//!
//! What shells do with a text before they read words: they join lines (`input`); they replace aliases and history, but
//! only in interactive shells and after builtins that are a doubt (`alias`, `shopt`, `set`); they decode letters as the
//! locale says, which is a doubt where a backslash could be a part of a letter; and they may take other characters for
//! blanks, all of which are a doubt.
mod builtins;
mod inner;
mod input;
mod line;
mod lists;
mod scan;
mod word;

pub(super) use builtins::is_builtin;
pub(super) use inner::{inner_commands, other_names};
pub(super) use line::Line;
pub(super) use word::{Word, show};

use super::rule::file_name;
pub(super) use lists::PRIVILEGED;
use lists::{EVALUATING, REMOTE, RUNNERS, SHELLS};

/// Longer lines are a doubt.
const MAX_BYTES: usize = 16 << 10;
/// The maximum nesting of scripts (`bash -c "bash -c '…'"`).
const MAX_DEPTH: usize = 4;

impl Line {
    /// Records a command, and the commands that it runs in turn.
    fn command(&mut self, words: Vec<Word>, depth: usize) {
        let head = words.first().and_then(Word::text).unwrap_or_default();
        let name = file_name(head);
        let evaluates = |word: &Word| word.text().is_some_and(|text| text.contains(['$', '`']));
        // `busybox sh -c …`
        let other_form = inner::other_forms(&words).last();
        let is_shell = |head: &Word| head.text().is_some_and(|head| SHELLS.contains(&file_name(head)));
        let script = match other_form.as_deref().unwrap_or(&words) {
            [head, Word::Text(option), Word::Text(script), ..] if is_shell(head) && is_script_option(option) => {
                // A word that looks like one may be another option.
                Some(script.clone()).filter(|script| depth < MAX_DEPTH && !script.starts_with(['-', '+']))
            }
            _ => None,
        };
        let is_read = script.is_some() && SHELLS.contains(&name);
        if !is_read && RUNNERS.contains(&name) || PRIVILEGED.contains(&name) {
            self.doubt(format!("what `{}` runs is not known", show(&words)));
        } else if REMOTE.contains(&name) && words[1..].iter().any(|word| !is_plain_of_remote(word)) {
            self.doubt(format!("what the options of `{}` run is not known", show(&words)));
        } else if EVALUATING.contains(&head) || is_builtin(head) && words[1..].iter().any(evaluates) {
            self.doubt(format!("what `{}` makes the shell do is not known", show(&words)));
        }
        let inner = inner_commands(&words);
        if depth == 0 {
            self.own.push(self.commands.len());
        }
        self.commands.push(words);
        self.commands.extend(inner);
        if let Some(script) = script {
            self.script(&script, depth + 1);
        }
    }

    fn script(&mut self, text: &str, depth: usize) {
        if text.len() > MAX_BYTES {
            return self.doubt(format!("it has {} bytes; at most {MAX_BYTES} are read", text.len()));
        }
        let is_odd = |c: &char| (c.is_control() || c.is_whitespace()) && !matches!(c, ' ' | '\t' | '\n');
        match text.chars().find(is_odd) {
            Some(odd) => self.doubt(format!("it has the character {odd:?}, which programs do not agree on")),
            None => {
                let Line { commands, doubts, is_loose, unread, .. } = scan::scan(text);
                commands.into_iter().for_each(|words| self.command(words, depth));
                doubts.into_iter().for_each(|why| self.doubt(why));
                self.is_loose |= is_loose;
                self.unread += &unread;
            }
        }
    }
}

/// Whether a word of `ssh` or a similar program names no program that runs on this machine.
fn is_plain_of_remote(word: &Word) -> bool {
    word.text().is_some_and(|text| !["-o", "-S", "-F", "-e", "--rsh"].iter().any(|option| text.starts_with(option)))
}

/// `-c`, `-lc` and similar. Not `-ic`: an interactive shell replaces aliases before it reads commands.
fn is_script_option(option: &str) -> bool {
    option.strip_prefix('-').is_some_and(|flags| flags.ends_with('c') && flags.chars().all(|c| "celux".contains(c)))
}

/// Reads a line.
pub(super) fn read(text: &str) -> Line {
    let mut line = Line::default();
    line.script(text, 0);
    line
}

/// Reads the words of one command.
pub(super) fn read_argv(words: Vec<Word>) -> Line {
    let mut line = Line::default();
    line.command(words, 0);
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_words_are_read_as_every_shell_reads_them() {
        for (text, commands) in [
            ("ls -l 'a b' \"c d\" e\\ f", &["ls -l 'a b' 'c d' 'e f'"][..]),
            ("r''m x; \\rm y && \"rm\" z", &["rm x", "rm y", "rm z"]),
            ("a|b||c&&d;e&f\ng # h; i", &["a", "b", "c", "d", "e", "f", "g"]),
            ("! a 2>&1 </dev/null | b >/dev/null", &["a", "b"]),
            ("r\\\nm x", &["rm x"]),
            ("LC_ALL=1 a 'b;c'", &["a 'b;c'"]),
            ("bash -lc 'a; rm b'", &["bash -lc 'a; rm b'", "a", "rm b"]),
            ("ls 5$ \"$\" \"\"", &["ls '5$' '$' ''"]),
        ] {
            let line = read(text);
            assert_eq!(line.commands.iter().map(|words| show(words)).collect::<Vec<_>>(), commands, "{text}");
            assert_eq!((line.doubts.len(), line.is_loose), (0, false), "{text}: {line:?}");
        }
        for (text, is_loose) in [
            ("a > b; c >> d <> e; FOO_x=1 f; LD_PRELOAD=x g; echo $x; eval \"$y\"; set -e", false),
            ("(a)", true),
            ("if a; then b; fi", true),
            ("for x in a; do b; done", true),
            ("a; b $(c)", true),
        ] {
            assert_eq!(read(text).is_loose, is_loose, "{text}");
        }
    }

    #[test]
    fn what_is_not_plain_is_a_doubt_and_what_is_certain_is_found_nevertheless() {
        for (text, commands) in [
            ("a; rm $(b)", &["a", "rm …"][..]),
            ("a `b`; c", &["a …"]),
            ("for f in a b; do rm $f; done", &["rm $f"]),
            ("if a; then b; fi", &["a", "b"]),
            ("(a; b)", &["a", "b"]),
            ("f() { rm; }", &["…"]),
            ("cat <<E\nrm x\nE", &["cat …"]),
            ("case x in rm) ;; esac", &["…"]),
            ("[[ a || rm == x ]]", &["…"]),
            ("a 'b", &["a …"]),
            ("a ) b", &["a …"]),
            ("$'rm' x", &["…"]),
            ("((rm))", &["…"]),
            ("eval 'rm x'", &["eval 'rm x'"]),
            ("echo 'a[$(rm)]'", &["echo 'a[$(rm)]'"]),
            ("PATH=. a", &["a"]),
            ("x+=1 a", &["…"]),
            ("a {b}>c", &["a …"]),
            ("a >&b c", &["a …"]),
            ("a &> b", &["a", "…"]),
            ("sudo -u x rm y", &["sudo -u x rm y", "-u x rm y", "x rm y", "rm y", "y"]),
        ] {
            let line = read(text);
            assert_eq!(line.commands.iter().map(|words| show(words)).collect::<Vec<_>>(), commands, "{text}");
            assert!(!line.doubts.is_empty(), "{text}");
        }
    }
}
