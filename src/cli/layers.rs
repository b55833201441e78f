//! Where the value of an option comes from: the command line, the environment, the config file, or its default, in this
//! order. For the commands of [`COMMANDS`]; the others have little but what all clients share (`connection.rs`).
//!
//! What the environment and the file say to an option that the command line does not have is put there before it is parsed:
//! so there is one parser, one set of rules, also for what goes together, and one text for what is wrong.
use super::config_file::{COMMANDS, ConfigFile, Problem, Said, complaint, options};
use super::{Program, exit, failure};
use crate::server;
use clap::builder::ArgAction;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory, FromArgMatches};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Where a value was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag,
    Variable(String),
    File(PathBuf, usize),
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag => f.write_str("command line"),
            Origin::Variable(name) => f.write_str(name),
            Origin::File(path, line) => write!(f, "{}, line {line}", path.display()),
            Origin::Default => f.write_str("default"),
        }
    }
}

/// An option's key, its values, and where they are from.
pub(crate) type Effective = (String, Vec<String>, Origin);

/// What the environment and the file say to the options of one command, by their keys.
#[derive(Debug, Default)]
pub(crate) struct Layers(BTreeMap<String, (Vec<String>, Origin)>);

/// Parses a command line.
///
/// # Errors
/// The exit code; what is to be said was said.
pub(crate) fn parse(mut arguments: Vec<OsString>) -> Result<Program, ExitCode> {
    let mut program = Program::command().mut_subcommands(without_variables);
    let usage = |error: clap::Error| exit::usage(&error);
    let first = arguments.get(1).and_then(|name| name.to_str());
    let mut origins = Vec::new();
    if let Some(name) = COMMANDS.into_iter().find(|name| first == Some(*name)) {
        // What is missing may come from the file, and what is wrong is told below.
        let given = program.clone().ignore_errors(true).try_get_matches_from(&arguments).map_err(usage)?;
        let given = given.subcommand_matches(name).cloned().unwrap_or_default();
        let layers = Layers::find(name, given.get_one::<PathBuf>("config").map(PathBuf::as_path)).map_err(|why| {
            why.iter().for_each(|why| failure::say(name, why));
            ExitCode::from(exit::USAGE)
        })?;
        let command = program.find_subcommand(name).expect("it is one of ours");
        arguments.splice(2..2, layers.arguments(command, &given));
        let matches = program.clone().try_get_matches_from(&arguments).map_err(usage)?;
        let complete = matches.subcommand_matches(name).cloned().unwrap_or_default();
        origins = layers.origins(command, &given, &complete);
    }
    let mut matches = program.clone().try_get_matches_from(&arguments).map_err(usage)?;
    let mut program = Program::from_arg_matches_mut(&mut matches).map_err(|error| usage(error.format(&mut program)))?;
    if let super::Command::Serve(args) = &mut program.command {
        args.origins = origins;
    }
    Ok(program)
}

/// A command whose command line is empty.
pub(crate) struct Complete {
    /// All its options, with where each is from.
    pub(crate) options: Vec<Effective>,
    /// What it would serve.
    pub(crate) server: Option<server::Config>,
}

/// What the environment and the file make of a command.
///
/// # Errors
/// Each line says what is wrong, and where; or what does not go together.
pub(crate) fn complete(name: &str, file: Option<&Path>) -> Result<Complete, Vec<String>> {
    let layers = Layers::find(name, file)?;
    let program = Program::command().mut_subcommands(without_variables);
    let command = program.find_subcommand(name).expect("only commands of ours are looked up");
    let given = ArgMatches::default();
    let arguments = ["pausewatch".into(), name.into()].into_iter().chain(layers.arguments(command, &given));
    let told = |error: clap::Error| {
        let text = error.to_string();
        let lines = text.lines().take_while(|line| !line.is_empty()).map(str::trim);
        vec![format!("{name}: {}", lines.collect::<Vec<_>>().join(" "))]
    };
    let matches = program.clone().try_get_matches_from(arguments).map_err(told)?;
    let parsed = Program::from_arg_matches(&matches).map_err(told)?;
    let server = match parsed.command {
        super::Command::Serve(args) => Some(args.config().map_err(|why| vec![format!("{name}: {why}")])?),
        _ => None,
    };
    let options = layers.origins(command, &given, matches.subcommand_matches(name).unwrap_or(&given));
    Ok(Complete { options, server })
}

/// Lets clap look at no variable of ours: it would not tell one that is wrong from a flag, nor one that is empty from
/// one that is set.
fn without_variables(command: Command) -> Command {
    match COMMANDS.contains(&command.get_name()) {
        true => command.mut_args(|arg| arg.env(None::<&str>)),
        false => command,
    }
}

fn is_given(given: &ArgMatches, arg: &clap::Arg) -> bool {
    // clap panics when it is asked for what it never parsed.
    given.ids().any(|id| id == arg.get_id())
        && given.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine)
}

/// The variable of an option.
fn variable(command: &str, key: &str, arg: &clap::Arg) -> String {
    let derived = || format!("PAUSEWATCH_{command}_{key}").replace('-', "_").to_uppercase();
    arg.get_env().map_or_else(derived, |name| name.to_string_lossy().into_owned())
}

impl Layers {
    /// Reads the environment, and the config file that `named` names or that is in its usual place.
    ///
    /// # Errors
    /// Each line says what is wrong, and where.
    pub(crate) fn find(command: &str, named: Option<&Path>) -> Result<Self, Vec<String>> {
        let file = ConfigFile::find(named).map_err(|error| vec![error.to_string()])?;
        let program = Program::command();
        let (said, path) = match file {
            Some(file) => {
                let place = file.path.display();
                let told = |problem: &Problem| format!("config file {place}: {problem}");
                let said = file.read(&program).map_err(|problems| problems.iter().map(told).collect::<Vec<_>>());
                (said?, file.path)
            }
            None => (Said::new(), PathBuf::new()),
        };
        let command = program.find_subcommand(command).expect("only commands of ours are looked up");
        let mut layers: BTreeMap<_, _> = said
            .into_iter()
            .filter(|((of, _), _)| of == command.get_name())
            .map(|((_, key), setting)| (key, (setting.values, Origin::File(path.clone(), setting.line))))
            .collect();
        let mut wrong = Vec::new();
        for (key, arg) in options(command) {
            let name = variable(command.get_name(), &key, arg);
            let Some(value) = std::env::var_os(&name).filter(|value| !value.is_empty()) else { continue };
            let Some(value) = value.to_str() else {
                wrong.push(format!("{name}: not UTF-8"));
                continue;
            };
            let values: Vec<_> = match arg.get_action() {
                ArgAction::Append => value.split(',').map(|value| value.trim().to_owned()).collect(),
                _ => vec![value.to_owned()],
            };
            wrong
                .extend(values.iter().filter_map(|value| Some(format!("{name}: {}", complaint(command, arg, value)?))));
            layers.insert(key, (values, Origin::Variable(name)));
        }
        if wrong.is_empty() { Ok(Layers(layers)) } else { Err(wrong) }
    }

    /// What is said to an option that takes one value.
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.0.first().map(String::as_str)
    }

    /// What is here and not among the `given` options, as arguments.
    pub(crate) fn arguments(&self, command: &Command, given: &ArgMatches) -> Vec<OsString> {
        let mut arguments = Vec::new();
        for (key, arg) in options(command).filter(|(_, arg)| !is_given(given, arg)) {
            let (Some(long), Some((values, _))) = (arg.get_long(), self.0.get(&key)) else { continue };
            match arg.get_action() {
                ArgAction::SetTrue if values == &["true"] => arguments.push(format!("--{long}").into()),
                ArgAction::SetTrue => {}
                _ => arguments.extend(values.iter().map(|value| OsString::from(format!("--{long}={value}")))),
            }
        }
        arguments
    }

    /// Each option of `command` with its value in the `complete` ones, and where that is from. A secret is not shown.
    pub(crate) fn origins(&self, command: &Command, given: &ArgMatches, complete: &ArgMatches) -> Vec<Effective> {
        let told = |(key, arg): (String, &clap::Arg)| {
            let id = arg.get_id().as_str();
            let raw = complete.get_raw(id).into_iter().flatten();
            let values = match arg.is_hide_env_values_set() {
                true => raw.map(|_| "(hidden)".to_owned()).collect(),
                false => raw.map(|value| value.to_string_lossy().into_owned()).collect(),
            };
            let origin = match self.0.get(&key) {
                _ if is_given(given, arg) => Origin::Flag,
                Some((_, origin)) => origin.clone(),
                None => Origin::Default,
            };
            (key, values, origin)
        };
        options(command).map(told).collect()
    }
}
