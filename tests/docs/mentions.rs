//! Things that a page only mentions exist too: the commands and options of `pausewatch` in its text, its tables, and
//! its blocks that are not run.
use crate::links::{pages, root};
use crate::page::{Step, blocks, steps};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// The options of each command, by its words: `""`, `serve`, `config check`.
struct Program(BTreeMap<String, BTreeSet<String>>);

impl Program {
    fn ask() -> Self {
        let mut program = Self(BTreeMap::new());
        program.ask_for(&[]);
        assert!(program.0["serve"].contains("--listen"), "the help was not read");
        program
    }

    fn ask_for(&mut self, words: &[&str]) {
        let help = Command::new(env!("CARGO_BIN_EXE_pausewatch")).args(words).arg("--help").output().unwrap();
        let help = String::from_utf8(help.stdout).unwrap();
        self.0.insert(words.join(" "), options(&help));
        let listed = help.split("Commands:\n").nth(1).unwrap_or_default().split("\n\n").next().unwrap_or_default();
        for name in listed.lines().filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next()) {
            if name != "help" && listed.contains(&format!("\n  {name} ")) || listed.starts_with(&format!("  {name} ")) {
                self.ask_for(&[words, &[name]].concat());
            }
        }
    }

    /// The error in this command line, without its first word `pausewatch`.
    fn complaint(&self, line: &str) -> Option<String> {
        let mut words =
            line.split_whitespace().map(|word| word.trim_matches(|c| "`.,;:()[]\"'".contains(c))).peekable();
        let mut command = String::new();
        while let Some(word) = words.peek() {
            let longer = format!("{command} {word}").trim().to_owned();
            if !self.0.contains_key(&longer) {
                break;
            }
            command = longer;
            words.next();
        }
        if command.is_empty() {
            let name = words.next().filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase()));
            return name.map(|name| format!("there is no command {name}"));
        }
        let is_duration =
            |word: &str| word.ends_with(['s', 'm', 'h']) && word.starts_with(|c: char| c.is_ascii_digit());
        // After these words, options belong to the command that is run.
        let ours = words.take_while(|word| *word != "--" && *word != "|" && !(command == "run" && is_duration(word)));
        let named = ours.filter_map(|word| {
            Some(word.split_once('=').map_or(word, |(name, _)| name)).filter(|name| name.starts_with("--"))
        });
        let unknown = named.into_iter().find(|name| !self.0[&command].contains(*name));
        unknown.map(|name| format!("{command} has no {name}"))
    }

    fn has_option(&self, name: &str) -> bool {
        self.0.values().any(|options| options.contains(name))
    }
}

/// Every `--option` in a help.
fn options(help: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let words = help.split(|c| !is_part(c)).filter(|word| word.len() > 2 && word.starts_with("--"));
    words.map(str::to_owned).collect()
}

/// The code in a page's text, with its line number.
fn spans(text: &str) -> Vec<(usize, String)> {
    let mut fenced = false;
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            found.extend(line.split('`').skip(1).step_by(2).map(|span| (at + 1, span.to_owned())));
        }
    }
    found
}

/// The error in a path of the repository, or in the name of a cargo test target.
fn missing_in_the_repository(page: &str, mention: &str) -> Option<String> {
    let mut words = mention.split_whitespace();
    let path = words.clone().next()?.trim_end_matches([',', ';']);
    let places = [
        "src/",
        "tests/",
        "docs/",
        "clients/",
        "benches/",
        "examples/",
        "proto/",
        "fuzz/",
        "deploy/",
        "release/",
        ".ci/",
    ];
    let is_plain =
        |path: &str| path.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "/._-".contains(c));
    let here = root().join(page);
    if places.iter().any(|place| path.starts_with(place))
        && is_plain(path)
        && !root().join(path).exists()
        && !here.parent()?.join(path).exists()
    {
        return Some(format!("there is no {path}"));
    }
    if mention.starts_with("cargo test") {
        let targets = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
        while words.any(|word| word == "--test") {
            let target = words.next()?;
            if !targets.contains(&format!("[[test]]\nname = \"{target}\"")) {
                return Some(format!("there is no test target {target}"));
            }
        }
    }
    None
}

#[test]
fn commands_and_options_that_pages_mention_exist() {
    let program = Program::ask();
    let mut wrong = Vec::new();
    for page in pages().iter().filter(|page| !page.starts_with("clients/") && *page != "CHANGELOG.md") {
        let text = std::fs::read_to_string(root().join(page)).unwrap();
        let mut mentions = spans(&text);
        let not_run: BTreeSet<_> = steps(&root().join(page))
            .into_iter()
            .filter_map(|step| if let Step::Skip { line, .. } = step { Some(line) } else { None })
            .collect();
        for block in blocks(&text).into_iter().filter(|block| not_run.contains(&block.line)) {
            let lines = block.text.join("\n").replace("\\\n", " ");
            mentions.extend(lines.lines().map(|line| (block.line, line.trim_start_matches("$ ").replace("sudo ", ""))));
        }
        for (line, mention) in mentions {
            let complaint = match mention.trim().strip_prefix("pausewatch ") {
                Some(rest) => program.complaint(rest),
                None => {
                    let option = mention.split([' ', '=']).next().unwrap_or_default();
                    let unknown = option.starts_with("--") && !option.ends_with('-') && !program.has_option(option);
                    unknown.then(|| format!("no command has {option}"))
                }
            };
            let complaint = complaint.or_else(|| missing_in_the_repository(page, &mention));
            wrong.extend(complaint.map(|complaint| format!("{page}:{line}: `{mention}`: {complaint}")));
        }
    }
    assert!(wrong.is_empty(), "pages that differ from the program:\n{}", wrong.join("\n"));
}

#[test]
fn the_readme_names_every_command() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let words = |span: &(usize, String)| span.1.split(' ').next().unwrap_or_default().to_owned();
    let named: BTreeSet<_> = spans(&readme).iter().map(words).collect();
    for command in Program::ask().0.keys().filter(|command| !command.is_empty() && !command.contains(' ')) {
        assert!(named.contains(command), "README.md does not name `{command}`");
    }
}

#[test]
fn a_page_names_every_option_of_the_server() {
    let text: String = pages().iter().map(|page| std::fs::read_to_string(root().join(page)).unwrap()).collect();
    let (program, named) = (Program::ask(), options(&text));
    // docs/limits.md explains once what the option for one caller means.
    let missing = |option: &&String| !named.contains(option.strip_suffix("-per-caller").unwrap_or(option));
    let missing: Vec<_> = program.0["serve"].iter().filter(missing).collect();
    assert!(missing.is_empty(), "no page explains these options of serve: {missing:?}");
}

#[test]
fn missing_names_are_detected() {
    let options = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let program = Program(BTreeMap::from([
        ("serve".to_owned(), options(&["--listen"])),
        ("run".to_owned(), options(&["--foreground"])),
        ("config check".to_owned(), options(&[])),
        ("config".to_owned(), options(&[])),
    ]));
    let complaint = |line: &str| program.complaint(line).unwrap_or_default();
    assert_eq!(complaint("serve --lisen x"), "serve has no --lisen");
    assert_eq!(complaint("server"), "there is no command server");
    assert_eq!(complaint("config check --all"), "config check has no --all");
    assert_eq!(complaint("serve --listen=x"), "");
    assert_eq!(complaint("run --foreground 10s tool --its-own"), "");
    assert_eq!(complaint("…"), "");
    let missing = |mention: &str| missing_in_the_repository("docs/guide.md", mention).unwrap_or_default();
    assert_eq!(missing("tests/nowhere --all"), "there is no tests/nowhere");
    assert_eq!(missing("cargo test --lib --test nowhere"), "there is no test target nowhere");
    assert_eq!(missing("cargo test --test it g3_") + &missing("tests/run [ARG]…") + &missing("src/NAME/mod.rs"), "");
}
