//! Where the value of an option comes from: the command line, the environment, the config file, or its default, in this
//! order. For the commands of [`COMMANDS`]; the others have little but what all clients share (`connection.rs`).
//!
//! What the environment and the file say becomes the option's default before the command line is parsed: so there is one
//! parser, one set of rules and one text for what is wrong.
use super::config_file::{COMMANDS, ConfigFile, Problem, Said, complaint, options};
use super::{Program, exit, failure};
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

/// What the environment and the file say to the options of one command, by their keys.
#[derive(Debug, Default)]
pub(crate) struct Layers(BTreeMap<String, (Vec<String>, Origin)>);

/// Parses a command line.
///
/// # Errors
/// The exit code; what is to be said was said.
pub(crate) fn parse(arguments: Vec<OsString>) -> Result<Program, ExitCode> {
    let mut command = Program::command().mut_subcommands(without_variables);
    let usage = |error: clap::Error| exit::usage(&error);
    let mut matches = command.clone().try_get_matches_from(&arguments).map_err(usage)?;
    let mut origins = Vec::new();
    if let Some((name, given)) = matches.subcommand().filter(|(name, _)| COMMANDS.contains(name)) {
        let layers = Layers::find(name, given.get_one::<PathBuf>("config").map(PathBuf::as_path)).map_err(|why| {
            why.iter().for_each(|why| failure::say(name, why));
            ExitCode::from(exit::USAGE)
        })?;
        command = command.mut_subcommand(name, |command| layers.under(command));
        matches = command.clone().try_get_matches_from(&arguments).map_err(usage)?;
        if let Some((name, given)) = matches.subcommand() {
            origins = layers.origins(command.find_subcommand(name).unwrap_or(&command), given);
        }
    }
    let mut program = Program::from_arg_matches_mut(&mut matches).map_err(|error| usage(error.format(&mut command)))?;
    if let super::Command::Serve(args) = &mut program.command {
        args.origins = origins;
    }
    Ok(program)
}

/// Lets clap look at no variable of ours: it would not tell one that is wrong from a flag, nor one that is empty from
/// one that is set.
fn without_variables(command: Command) -> Command {
    match COMMANDS.contains(&command.get_name()) {
        true => command.mut_args(|arg| arg.env(None::<&str>)),
        false => command,
    }
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

    /// The command, with what is here as the defaults of its options.
    pub(crate) fn under(&self, mut command: Command) -> Command {
        let ids: Vec<_> = options(&command).map(|(key, arg)| (key, arg.get_id().clone())).collect();
        for (key, id) in ids {
            if let Some((values, _)) = self.0.get(&key) {
                command = command.mut_arg(id, |arg| arg.default_values(values.iter().map(OsString::from)));
            }
        }
        command
    }

    /// Each option of `command` with its value in `matches` and where that is from. A secret is not shown.
    pub(crate) fn origins(&self, command: &Command, matches: &ArgMatches) -> Vec<(String, Vec<String>, Origin)> {
        let told = |(key, arg): (String, &clap::Arg)| {
            let id = arg.get_id().as_str();
            let raw = matches.get_raw(id).into_iter().flatten();
            let values = match arg.is_hide_env_values_set() {
                true => raw.map(|_| "(hidden)".to_owned()).collect(),
                false => raw.map(|value| value.to_string_lossy().into_owned()).collect(),
            };
            let origin = match (matches.value_source(id), self.0.get(&key)) {
                (Some(ValueSource::CommandLine), _) => Origin::Flag,
                (_, Some((_, origin))) => origin.clone(),
                _ => Origin::Default,
            };
            (key, values, origin)
        };
        options(command).map(told).collect()
    }
}
