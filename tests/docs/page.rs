//! Parses a page: the steps of a reader, in order, and the output that the page shows.
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// One step of a reader.
#[derive(Debug, PartialEq)]
pub(crate) enum Step {
    /// Types a command.
    Run(Typed),
    /// Writes a file.
    Write { line: usize, name: String, text: String },
    /// The block is not run, for this reason.
    Skip { line: usize, reason: String },
}

#[derive(Debug, PartialEq)]
pub(crate) struct Typed {
    pub(crate) line: usize,
    pub(crate) command: String,
    /// The output on the page; `None`: the page does not show it.
    pub(crate) shown: Option<Vec<String>>,
    /// The programs that it needs.
    pub(crate) needs: Vec<String>,
}

/// A fenced block.
#[derive(Debug)]
pub(crate) struct Block {
    /// The line number of the first line of its text.
    pub(crate) line: usize,
    pub(crate) language: String,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) text: Vec<String>,
}

/// The fenced blocks of a page.
pub(crate) fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let indent = line.len() - line.trim_start().len();
        let Some(info) = line.trim_start().strip_prefix("```") else { continue };
        let (language, attributes) = info_string(info);
        let inside = |line: &str| {
            line.get(..indent).filter(|blank| blank.trim().is_empty()).map_or(line, |_| &line[indent..]).to_owned()
        };
        let text = lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```").map(inside).collect();
        blocks.push(Block { line: at + 2, language, attributes, text });
    }
    blocks
}

/// The first word is the language; words of the form `key=value` and `key="some words"` follow.
fn info_string(info: &str) -> (String, BTreeMap<String, String>) {
    let (language, mut rest) = info.trim().split_once(' ').unwrap_or((info.trim(), ""));
    let mut attributes = BTreeMap::new();
    while !rest.trim().is_empty() {
        let word = rest.trim_start();
        let (key, value) = word.split_once('=').filter(|(key, _)| !key.contains(' ')).unwrap_or((word, ""));
        let (value, left) = match value.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or_else(|| panic!("a quote that does not end: {info}")),
            None => value.split_once(' ').unwrap_or((value, "")),
        };
        attributes.insert(key.to_owned(), value.to_owned());
        rest = left;
    }
    (language.to_owned(), attributes)
}

/// The steps of a reader of the page.
pub(crate) fn steps(path: &Path) -> Vec<Step> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    blocks(&text).iter().flat_map(|block| steps_of(path, block)).collect()
}

fn steps_of(path: &Path, block: &Block) -> Vec<Step> {
    let here = format!("{}:{}", path.display(), block.line - 1);
    let Block { line, attributes, text, .. } = block;
    let is_shell = ["sh", "bash", "shell", "console"].contains(&block.language.as_str());
    for name in attributes.keys().filter(|_| is_shell) {
        assert!(["file", "no_run", "needs"].contains(&name.as_str()), "{here}: what is {name}? See tests/docs/main.rs");
    }
    assert!(!block.language.is_empty(), "{here}: say what it is: sh, console, text, or a language");
    if let Some(name) = attributes.get("file") {
        return vec![Step::Write { line: *line, name: name.clone(), text: text.join("\n") + "\n" }];
    }
    if !is_shell {
        return Vec::new();
    }
    if let Some(reason) = attributes.get("no_run") {
        assert!(reason.len() > 5, "{here}: no_run=\"REASON\": say why it cannot be run here");
        return vec![Step::Skip { line: *line, reason: reason.clone() }];
    }
    let mut typed = if block.language == "console" { session(*line, text) } else { script(*line, text) };
    for command in &mut typed {
        command.needs =
            attributes.get("needs").into_iter().flat_map(|list| list.split(',')).map(str::to_owned).collect();
    }
    assert!(!typed.is_empty(), "{here}: there is no command in it");
    typed.into_iter().map(Step::Run).collect()
}

/// A block with prompts and output.
fn session(first: usize, text: &[String]) -> Vec<Typed> {
    let mut all: Vec<Typed> = Vec::new();
    for (at, line) in text.iter().enumerate() {
        if let Some(command) = line.strip_prefix("$ ") {
            all.push(Typed {
                line: first + at,
                command: command.to_owned(),
                shown: Some(Vec::new()),
                needs: Vec::new(),
            });
            continue;
        }
        let last = all.last_mut().unwrap_or_else(|| panic!("line {}: a console block begins with `$ `", first + at));
        let shown = last.shown.get_or_insert_default();
        match line.strip_prefix('>').filter(|_| shown.is_empty() && !complete(&last.command)) {
            Some(more) => last.command += &format!("\n{}", more.strip_prefix(' ').unwrap_or(more)),
            None => shown.push(line.clone()),
        }
    }
    all
}

/// A block with only commands.
fn script(first: usize, text: &[String]) -> Vec<Typed> {
    let mut all = Vec::new();
    let (mut begun, mut command) = (first, String::new());
    for (at, line) in text.iter().enumerate() {
        if command.is_empty() {
            begun = first + at;
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
        } else {
            command += "\n";
        }
        command += line;
        if complete(&command) {
            all.push(Typed { line: begun, command: std::mem::take(&mut command), shown: None, needs: Vec::new() });
        }
    }
    assert!(command.is_empty(), "line {begun}: a command that does not end: {command}");
    all
}

/// Whether the command is complete: false with an open quote, a here-document, or a `\` or a `
/// ` at the end.
fn complete(command: &str) -> bool {
    let continues =
        command.ends_with('\\') || command.trim_end().ends_with(['|', '(', '{']) || command.trim_end().ends_with("&&");
    // A single plain line can be judged without running a shell.
    if !continues
        && !command.contains(['"', '\'', '(', '{', '<', '\n'])
        && !command.contains("if ")
        && !command.contains(" do")
    {
        return true;
    }
    let checked = Command::new("bash").args(["-n", "-c", command]).output().expect("there is bash");
    !continues && checked.status.success() && checked.stderr.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(typed: &[Typed]) -> Vec<&str> {
        typed.iter().map(|typed| typed.command.as_str()).collect()
    }

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_block_knows_its_line_its_language_and_what_is_said_of_it() {
        let page = "text\n```sh no_run=\"needs systemd\" needs=a,b\nls\n```\n  ```toml file=x.toml\n  a = 1\n  ```\n";
        let blocks = blocks(page);
        assert_eq!((blocks[0].line, blocks[0].language.as_str()), (3, "sh"));
        assert_eq!(blocks[0].attributes["no_run"], "needs systemd");
        assert_eq!(blocks[0].attributes["needs"], "a,b");
        assert_eq!(
            (blocks[1].text.as_slice(), blocks[1].attributes["file"].as_str()),
            (&["a = 1".to_owned()][..], "x.toml")
        );
    }

    #[test]
    fn a_script_is_cut_where_a_command_ends() {
        let text = lines("# why\na \\\n  b\ncat >f <<'E'\nx 'y\nE\nif true\nthen c; fi # yes\n\nd 'e\nf' |\n g");
        let all = script(1, &text);
        let expected = ["a \\\n  b", "cat >f <<'E'\nx 'y\nE", "if true\nthen c; fi # yes", "d 'e\nf' |\n g"];
        assert_eq!(commands(&all), expected);
        assert_eq!(all[1].line, 4);
    }

    #[test]
    fn a_session_has_commands_and_what_they_print() {
        let all = session(1, &lines("$ echo 'a\n> b'\na\nb\n$ true\n$ cat x\n> quoted"));
        assert_eq!(commands(&all), ["echo 'a\nb'", "true", "cat x"]);
        let shown: Vec<_> = all.iter().map(|typed| typed.shown.clone().unwrap()).collect();
        assert_eq!(shown, [lines("a\nb"), lines(""), lines("> quoted")]);
    }

    #[test]
    fn a_reason_is_asked_for_and_an_unknown_word_refused() {
        let refused = |info: &str| {
            let block = &blocks(&format!("```{info}\nls\n```\n"))[0];
            std::panic::catch_unwind(|| steps_of(Path::new("page.md"), block)).is_err()
        };
        assert!(refused("sh no_run=\"\"") && refused("sh norun=\"typing error\"") && refused(""));
        assert!(!refused("sh no_run=\"needs systemd\"") && !refused("sh") && !refused("text"));
    }
}
