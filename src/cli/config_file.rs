//! Reads the config file for the program: the options of `serve` in the table `[serve]`, and every problem in the file
//! with its position.
//!
//! 1. A file with a problem is not used at all: half a configuration is not what its author meant.
//! 2. No message shows a token.
use super::option_value::{OptionValue, check, is_repeatable, is_switch, options};
use super::stderr;
use crate::client::{ConfigError, Settings, ignored_config_file, read_config_file};
use crate::escape::escaped;
use clap::{Arg, Command};
use serde::Deserialize;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Once;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub(crate) struct ConfigFile {
    pub(crate) path: PathBuf,
    text: String,
}

/// Warns once if the file in its default place was ignored, because it is in the home of another user.
pub(crate) fn warn_if_ignored() {
    static WARNED: Once = Once::new();
    if let Some(why) = ignored_config_file() {
        WARNED.call_once(|| stderr::write_line(format!("pausewatch: warning: {}\n", escaped(why)).as_bytes()));
    }
}

/// Where in the text, as a byte offset, and what is wrong there.
type Problem = (usize, String);

impl ConfigFile {
    /// The file at `path`, else the one that the environment names, else the one in its default place, which may be
    /// missing.
    pub(crate) fn find(path: Option<&Path>) -> Result<Option<Self>, ConfigError> {
        let file = read_config_file(path)?.map(|(path, text)| Self { path, text });
        warn_if_ignored();
        Ok(file)
    }

    /// The options of `serve` that the file sets, or all problems of the whole file, in the order of their positions.
    pub(crate) fn serve_options(&self, serve: &Command) -> Result<Vec<OptionValue>, Vec<String>> {
        let (root, errors) = DeTable::parse_recoverable(&self.text);
        if !errors.is_empty() {
            let problem =
                |error: &toml::de::Error| (error.span().unwrap_or_default().start, error.message().to_owned());
            return Err(self.messages(errors.iter().map(problem).collect()));
        }
        let (mut set, mut problems) = (Vec::new(), Vec::new());
        let whole = root.span();
        for (key, value) in root.into_inner() {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("serve", DeValue::Table(table)) => {
                    for (key, value) in table {
                        match self.option(serve, key, value) {
                            Ok(option) => set.push(option),
                            Err(found) => problems.extend(found),
                        }
                    }
                }
                ("serve", _) => problems.push((value.span().start, "expected a table: [serve]".into())),
                _ => {
                    // One key at a time: the first problem does not hide the next.
                    let start = value.span().start;
                    let table = Spanned::new(whole.clone(), DeTable::from_iter([(key, value)]));
                    if let Err(error) = Settings::deserialize(toml::Deserializer::from(table)) {
                        problems.push((error.span().map_or(start, |span| span.start), error.message().to_owned()));
                    }
                }
            }
        }
        if problems.is_empty() { Ok(set) } else { Err(self.messages(problems)) }
    }

    fn option(
        &self,
        serve: &Command,
        key: &Spanned<impl AsRef<str>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<OptionValue, Vec<Problem>> {
        let (start, name) = (key.span().start, key.get_ref().as_ref());
        let Some((key, arg)) = options(serve).find(|(key, _)| key == name) else {
            let known: Vec<_> = options(serve).map(|(key, _)| format!("`{key}`")).collect();
            return Err(vec![(start, format!("unknown field `{name}`, expected one of {}", known.join(", ")))]);
        };
        let items = match value.get_ref() {
            DeValue::Array(items) if is_repeatable(arg) => items.iter().collect(),
            _ => vec![value],
        };
        let (mut values, mut problems) = (Vec::new(), Vec::new());
        for item in items {
            let text = argument(arg, item.get_ref()).map_err(str::to_owned);
            match text.and_then(|text| check(serve, arg, &text).map(|()| text)) {
                Ok(text) => values.push(OsString::from(text)),
                Err(why) => problems.push((item.span().start, format!("{key}: {why}"))),
            }
        }
        let origin = format!("{}, line {}", self.path.display(), self.position(start).0);
        if problems.is_empty() { Ok(OptionValue { key, values, origin }) } else { Err(problems) }
    }

    fn messages(&self, mut problems: Vec<Problem>) -> Vec<String> {
        problems.sort();
        let message = |(start, what): &Problem| {
            let (line, column) = self.position(*start);
            let (path, what) = (self.path.display(), what.trim().replace('\n', ", "));
            format!("config file {path}: line {line}, column {column}: {what}")
        };
        problems.iter().map(message).collect()
    }

    /// Line and column of a byte, both from 1; columns count characters.
    fn position(&self, byte: usize) -> (usize, usize) {
        let before = self.text.get(..byte).unwrap_or(&self.text);
        let line = before.rsplit('\n').next().unwrap_or_default();
        (before.matches('\n').count() + 1, line.chars().count() + 1)
    }
}

/// The value as it would be written on the command line.
fn argument(arg: &Arg, value: &DeValue<'_>) -> Result<String, &'static str> {
    match value {
        DeValue::Boolean(value) if is_switch(arg) => Ok(value.to_string()),
        _ if is_switch(arg) => Err("expected true or false"),
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map(|number| number.to_string())
            .map_err(|_| "the number is too large"),
        DeValue::Float(number) => Ok(number.to_string()),
        _ if is_repeatable(arg) => Err("expected a string, or an array of strings"),
        _ => Err("expected a string or a number"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Program;
    use clap::CommandFactory;

    fn read(text: &str) -> Result<Vec<OptionValue>, Vec<String>> {
        let file = ConfigFile { path: "c.toml".into(), text: text.into() };
        let program = Program::command();
        let without_path = |problem: &String| problem.strip_prefix("config file c.toml: ").unwrap().to_owned();
        let options = file.serve_options(program.find_subcommand("serve").unwrap());
        options.map_err(|problems| problems.iter().map(without_path).collect())
    }

    #[test]
    fn the_serve_table_sets_options() {
        let options = read(
            "thread_id = 't'\n[serve]\nlisten = ['127.0.0.1:0', 'unix:/p']\ninsecure = true\nworkers = 0x10\nanonymous_ttl = 90\n",
        )
        .unwrap();
        let mut shown: Vec<_> = options.iter().map(ToString::to_string).collect();
        shown.sort();
        let expected = [
            "anonymous_ttl=90 (c.toml, line 6)",
            "insecure=true (c.toml, line 4)",
            "listen=127.0.0.1:0,unix:/p (c.toml, line 3)",
            "workers=16 (c.toml, line 5)",
        ];
        assert_eq!(shown, expected);
        assert!(read("[serve]\nlisten = '127.0.0.1:0'\n").is_ok(), "a single value needs no brackets");
    }

    #[test]
    fn every_problem_is_reported_with_its_position_and_the_allowed_values() {
        let problems = read("adress = 'h:1'\naddress = 'h'\nserve = 7\ntoken = 'two words'\n").unwrap_err();
        assert!(
            problems[0].starts_with("line 1, column 1: unknown field `adress`, expected one of `address`"),
            "{problems:?}"
        );
        assert!(problems[1].starts_with("line 2, column 11: address \"h\": the port is missing"), "{problems:?}");
        assert_eq!(problems[2], "line 3, column 9: expected a table: [serve]");
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
            "line 2, column 11: listen: ",
            "line 2, column 16: listen: ",
            "line 3, column 9: store: expected one of embedded, etcd, memory",
            "line 4, column 11: workers: 0 is not in 1..=256",
            "line 5, column 14: insecure: expected true or false",
            "line 6, column 1: unknown field `ä`, expected one of `listen`, ",
            "line 7, column 1: unknown field `log`, ",
            "line 8, column 17: anonymous_ttl: a lease is 1s to 24h, or 0 for none",
            "line 9, column 12: data_dir: expected a string or a number",
        ];
        assert_eq!(problems.len(), expected.len(), "{problems:?}");
        for (problem, expected) in problems.iter().zip(expected) {
            assert!(problem.starts_with(expected), "{problem} is not {expected}");
        }
        assert!(problems[0].contains("HOST:PORT") && problems[1].contains("path"), "{problems:?}");
    }

    #[test]
    fn syntax_errors_are_reported_with_their_position() {
        let problems = read("a = 1\n[serve\n= 2\n").unwrap_err();
        assert!(problems.len() >= 2 && problems[0].starts_with("line 2, column "), "{problems:?}");
        assert!(problems[1].starts_with("line 3, column "), "{problems:?}");
    }
}
