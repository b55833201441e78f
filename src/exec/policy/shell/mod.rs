//! Reading a command line: the commands in it whose words are known before it runs, and every reason to doubt that these are all.
//!
//! What a command executes is judged when it is executed. The text is read for what that does not show, or shows too late: an allowed line,
//! a forbidden command behind others, one question for the whole line, builtins, and programs that run others with more privileges.
//!
//! 1. A word is a text only if every shell makes exactly this text of it, whatever the variables and files are.
//! 2. Commands are found wherever they stand: which of them run, nobody knows before.
//! 3. What is not plain words joined by `&&`, `||`, `;`, `|` and `&` is a doubt. Some of it is read nevertheless, as far as it is certain.
//! 4. Reading takes time that is linear in the length of the line.
mod lists;
mod scan;
mod word;

pub(super) use word::{Word, show};

use super::{rule::file_name, unseen};
use lists::{EVALUATING, HARMLESS_VARIABLES, PRIVILEGED, REMOTE, RUNNERS, SHELLS};

/// Longer lines are a doubt.
const MAX_BYTES: usize = 16 << 10;
/// How deep scripts may stand in each other (`bash -c "bash -c '…'"`).
const MAX_DEPTH: usize = 4;

/// A command line as it was read.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// Each command's words, in the order of the text.
    pub(super) commands: Vec<Vec<Word>>,
    /// Why what was read may not be what runs.
    pub(super) doubts: Vec<String>,
    /// It writes a file by a redirection, or sets a variable that programs may heed: more than its commands' words say.
    pub(super) beyond_allow: bool,
    /// The text behind the point from which on its meaning is not certain.
    pub(super) unread: String,
}

impl Line {
    fn doubt(&mut self, why: impl Into<String>) {
        // One is enough to decide; a few are enough to tell.
        if self.doubts.len() < 8 {
            self.doubts.push(why.into());
        }
    }

    /// Notes a command, and what it runs in turn.
    fn command(&mut self, words: Vec<Word>, depth: usize) {
        let head = words.first().and_then(Word::text).unwrap_or_default();
        let name = file_name(head);
        let evaluates = |word: &Word| word.text().is_some_and(|text| text.contains(['$', '`']));
        let script = match &words[..] {
            [_, Word::Text(option), Word::Text(script), ..] if SHELLS.contains(&name) && is_script_option(option) => {
                // What looks like one may be another option.
                Some(script.clone()).filter(|script| depth < MAX_DEPTH && !script.starts_with(['-', '+']))
            }
            _ => None,
        };
        if script.is_none() && RUNNERS.contains(&name) || PRIVILEGED.contains(&name) {
            self.doubt(format!("what `{}` runs is not known", show(&words)));
        } else if REMOTE.contains(&name) && words[1..].iter().any(|word| !is_plain_of_remote(word)) {
            self.doubt(format!("what the options of `{}` run is not known", show(&words)));
        } else if EVALUATING.contains(&head) || unseen::is_builtin(head) && words[1..].iter().any(evaluates) {
            self.doubt(format!("what `{}` makes the shell do is not known", show(&words)));
        }
        let inner = run_with_privileges(&words);
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
            None => scan::scan(text, self, depth),
        }
    }

    /// Notes that a variable is set.
    fn assign(&mut self, name: &str) {
        self.beyond_allow |= !is_harmless(name);
        // Names in small letters are the line's own.
        if !is_harmless(name) && name.contains(|c: char| c.is_ascii_uppercase()) {
            self.doubt(format!("it sets {name}, which may change what the commands after it are"));
        }
    }
}

fn is_harmless(variable: &str) -> bool {
    HARMLESS_VARIABLES.contains(&variable) || variable.starts_with("LC_")
}

/// Whether the word of `ssh` or its like names no program to run here.
fn is_plain_of_remote(word: &Word) -> bool {
    word.text().is_some_and(|text| !["-o", "-S", "-F", "-e", "--rsh"].iter().any(|option| text.starts_with(option)))
}

/// `-c`, `-lc` and similar.
fn is_script_option(option: &str) -> bool {
    option.strip_prefix('-').is_some_and(|flags| flags.ends_with('c') && flags.chars().all(|c| "ceilux".contains(c)))
}

/// What a program like `sudo` may run, whose programs are not judged: any of its words may be the first one of a command.
pub(super) fn run_with_privileges(words: &[Word]) -> Vec<Vec<Word>> {
    let is_privileged = words.first().and_then(Word::text).is_some_and(|head| PRIVILEGED.contains(&file_name(head)));
    let mut inner = Vec::new();
    if is_privileged {
        let parts = words[1..].iter().flat_map(|word| match word.text().and_then(shlex::split) {
            // `su -c 'rm x'`
            Some(parts) => parts.into_iter().map(Word::Text).collect(),
            None => vec![word.clone()],
        });
        let parts: Vec<_> = parts.take(MAX_PRIVILEGED_WORDS).collect();
        inner.extend((0..parts.len()).map(|from| parts[from..].to_vec()));
    }
    inner
}

/// How many words behind `sudo` may be the first one of a command.
const MAX_PRIVILEGED_WORDS: usize = 64;

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
