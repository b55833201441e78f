//! The config file, as it concerns the program: what its tables say to the options of commands, and every problem in it
//! with its place.
//!
//! 1. A file with a problem is not used at all: half of what somebody wrote is not what they meant.
//! 2. What stands in the file of a secret is in no message.
use crate::client::{ConfigError, Settings, config_file};
use clap::builder::ArgAction;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The commands whose options may stand in the file, in a table with the name of the command.
pub(crate) const COMMANDS: [&str; 1] = ["serve"];

/// A config file that was read.
pub(crate) struct ConfigFile {
    pub(crate) path: PathBuf,
    text: String,
}

/// Something in the file that cannot be meant.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    line: usize,
    column: usize,
    what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.what)
    }
}

/// What the file says to one option.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) values: Vec<String>,
    pub(crate) line: usize,
}

/// What the file says: by the command and the key.
pub(crate) type Said = BTreeMap<(String, String), Setting>;

/// The options of `command` that may stand in the file, each with its key there.
pub(crate) fn options(command: &Command) -> impl Iterator<Item = (String, &Arg)> {
    let named = command.get_arguments().filter_map(|arg| Some((arg.get_long()?, arg)));
    named
        .filter(|(long, _)| !["config", "help", "version"].contains(long))
        .map(|(long, arg)| (long.replace('-', "_"), arg))
}

/// What is wrong with `value` for the option `arg` of `command`, and what is allowed.
pub(crate) fn complaint(command: &Command, arg: &Arg, value: &str) -> Option<String> {
    let argument = match arg.get_action() {
        ArgAction::SetTrue => match value {
            "true" | "false" => return None,
            _ => return Some("wanted true or false".into()),
        },
        _ => format!("--{}={value}", arg.get_long().unwrap_or_default()),
    };
    let error = command.clone().no_binary_name(true).try_get_matches_from([argument]).err()?;
    let secret = arg.is_hide_env_values_set();
    match error.kind() {
        ErrorKind::InvalidValue => match error.get(ContextKind::ValidValue) {
            Some(ContextValue::Strings(allowed)) if !allowed.is_empty() => {
                Some(format!("wanted one of {}", allowed.join(", ")))
            }
            _ => Some("a value is missing".into()),
        },
        _ if secret => Some("it is no such value; it is not shown, as it may be a secret".into()),
        ErrorKind::ValueValidation => error.source().map(ToString::to_string),
        // Of what stands on the command line beside it, it says nothing.
        _ => None,
    }
}

impl ConfigFile {
    /// The file that `named` names, else the environment, else the one in its usual place, which may be missing.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn find(named: Option<&Path>) -> Result<Option<Self>, ConfigError> {
        Ok(config_file(named)?.map(|(path, text)| Self { path, text }))
    }

    /// What it says to the commands of `program`.
    ///
    /// # Errors
    /// All that is wrong in it, in the order of the places.
    pub(crate) fn read(&self, program: &Command) -> Result<Said, Vec<Problem>> {
        let (root, errors) = DeTable::parse_recoverable(&self.text);
        if !errors.is_empty() {
            let problem = |error: &toml::de::Error| self.problem(error.span().unwrap_or_default(), error.message());
            return Err(sorted(errors.iter().map(problem).collect()));
        }
        let (mut said, mut problems) = (Said::new(), Vec::new());
        let whole = root.span();
        for (key, value) in root.into_inner() {
            let command = COMMANDS.into_iter().find(|command| command.replace('-', "_") == *key.get_ref());
            match command.and_then(|command| program.find_subcommand(command)) {
                Some(command) => match value.get_ref() {
                    DeValue::Table(table) => self.read_table(command, table, &mut said, &mut problems),
                    _ => problems.push(self.problem(value.span(), &format!("wanted a table: [{}]", key.get_ref()))),
                },
                None => {
                    let (at, mut one) = (value.span(), DeTable::new());
                    one.insert(key, value);
                    let read = Settings::deserialize(toml::Deserializer::from(Spanned::new(whole.clone(), one)));
                    problems.extend(read.err().map(|error| self.problem(error.span().unwrap_or(at), error.message())));
                }
            }
        }
        if problems.is_empty() { Ok(said) } else { Err(sorted(problems)) }
    }

    fn read_table(&self, command: &Command, table: &DeTable<'_>, said: &mut Said, problems: &mut Vec<Problem>) {
        for (key, value) in table {
            let Some((name, arg)) = options(command).find(|(name, _)| name == key.get_ref()) else {
                let known: Vec<_> = options(command).map(|(name, _)| format!("`{name}`")).collect();
                let what = format!("unknown field `{}`, expected one of {}", key.get_ref(), known.join(", "));
                problems.push(self.problem(key.span(), &what));
                continue;
            };
            let several = matches!(arg.get_action(), ArgAction::Append);
            let items: Vec<&Spanned<DeValue<'_>>> = match value.get_ref() {
                DeValue::Array(items) if several => items.iter().collect(),
                _ => vec![value],
            };
            let mut values = Vec::new();
            for item in items {
                match text_of(item.get_ref(), matches!(arg.get_action(), ArgAction::SetTrue), several) {
                    Ok(text) => match complaint(command, arg, &text) {
                        None => values.push(text),
                        Some(why) => problems.push(self.problem(item.span(), &format!("{name}: {why}"))),
                    },
                    Err(wanted) => problems.push(self.problem(item.span(), &format!("{name}: {wanted}"))),
                }
            }
            let line = self.place(key.span().start).0;
            said.insert((command.get_name().to_owned(), name), Setting { values, line });
        }
    }

    fn problem(&self, span: Range<usize>, what: &str) -> Problem {
        let (line, column) = self.place(span.start);
        Problem { line, column, what: what.trim().replace('\n', ", ") }
    }

    /// Line and column of a byte, both from 1; columns count characters.
    fn place(&self, byte: usize) -> (usize, usize) {
        let before = self.text.get(..byte).unwrap_or(&self.text);
        let line = before.rsplit('\n').next().unwrap_or_default();
        (before.matches('\n').count() + 1, line.chars().count() + 1)
    }
}

fn sorted(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort();
    problems
}

/// A value as the command line would have it.
fn text_of(value: &DeValue<'_>, is_switch: bool, several: bool) -> Result<String, &'static str> {
    match value {
        DeValue::Boolean(value) if is_switch => Ok(value.to_string()),
        _ if is_switch => Err("wanted true or false"),
        DeValue::String(text) => Ok(text.clone().into_owned()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map(|number| number.to_string())
            .map_err(|_| "the number is too large"),
        DeValue::Float(number) => Ok(number.as_str().to_owned()),
        _ if several => Err("wanted a string, or several in brackets"),
        _ => Err("wanted a string or a number"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Program;
    use clap::CommandFactory;

    fn read(text: &str) -> Result<Said, Vec<String>> {
        let file = ConfigFile { path: "c.toml".into(), text: text.into() };
        file.read(&Program::command()).map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_table_gives_options_their_values() {
        let said = read(
            "thread_id = 't'\n[serve]\nlisten = ['127.0.0.1:0', 'unix:/p']\ninsecure = true\nworkers = 0x10\nanonymous_ttl = 90\n",
        )
        .unwrap();
        let setting = |key: &str| {
            let setting = &said[&("serve".to_owned(), key.to_owned())];
            (setting.line, setting.values.join(" "))
        };
        assert_eq!(setting("listen"), (3, "127.0.0.1:0 unix:/p".into()));
        assert_eq!(setting("insecure"), (4, "true".into()));
        assert_eq!(setting("workers"), (5, "16".into()));
        assert_eq!(setting("anonymous_ttl"), (6, "90".into()));
        assert!(read("[serve]\nlisten = '127.0.0.1:0'\n").is_ok(), "one needs no brackets");
    }

    #[test]
    fn every_problem_is_told_with_its_place_and_what_is_allowed() {
        let problems = read("adress = 'h:1'\naddress = 'h'\nserve = 7\ntoken = 'two words'\n").unwrap_err();
        assert!(
            problems[0].starts_with("line 1, column 1: unknown field `adress`, expected one of `address`"),
            "{problems:?}"
        );
        assert!(problems[1].starts_with("line 2, column 11: address \"h\": the port is missing"), "{problems:?}");
        assert_eq!(problems[2], "line 3, column 9: wanted a table: [serve]");
        assert!(
            problems[3].starts_with("line 4, column 9: token:") && !problems[3].contains("two words"),
            "{problems:?}"
        );
        let problems = read(
            "[serve]\nlisten = ['h', 'unix:']\nstore = 'disk'\nworkers = 0\n  insecure = 'yes'\n'ä' = 1\nlog = { a = 1 }\n\
             anonymous_ttl = '25h'\ndata_dir = ['a']\n",
        )
        .unwrap_err();
        let expected = [
            "line 2, column 11: listen: wanted HOST:PORT or unix:PATH",
            "line 2, column 16: listen: unix: wants a path behind it",
            "line 3, column 9: store: wanted one of embedded, memory",
            "line 4, column 11: workers: 0 is not in 1..=256",
            "line 5, column 14: insecure: wanted true or false",
        ];
        assert_eq!(problems[..5], expected);
    }

    #[test]
    fn syntax_is_told_with_its_place() {
        let problems = read("a = 1\n[serve\n= 2\n").unwrap_err();
        assert!(problems.len() >= 2 && problems[0].starts_with("line 2, column "), "{problems:?}");
        assert!(problems[1].starts_with("line 3, column "), "{problems:?}");
    }
}
