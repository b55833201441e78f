//! The options of `serve` outside the command line: their keys in the config file, their environment variables, and the
//! check of one value. All of this is derived from clap's definition of the option. Values are logged, so a secret
//! belongs in a file that an option names.
use super::traces;
use clap::builder::ArgAction;
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Command};
use std::error::Error;
use std::ffi::OsString;
use std::fmt;

#[derive(Clone, Debug)]
pub(crate) struct OptionValue {
    pub(crate) key: String,
    /// Written as on the command line; a switch has `true` or `false`.
    pub(crate) values: Vec<OsString>,
    /// Where they were set, for people: `command line`, `default`, a variable, or a file with the line.
    pub(crate) origin: String,
}

impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={} ({})", self.key, self.values.join(",".as_ref()).display(), self.origin)
    }
}

/// The options of `serve` that the environment and the config file can set, each with its key.
pub(crate) fn options(serve: &Command) -> impl Iterator<Item = (String, &Arg)> {
    let named = serve.get_arguments().filter_map(|arg| Some((arg.get_long()?, arg)));
    named.filter(|(name, _)| !["config", "help"].contains(name)).map(|(name, arg)| (name.replace('-', "_"), arg))
}

/// The environment variable of an option; two have a name of their own.
pub(crate) fn variable(key: &str) -> String {
    match key {
        "data_dir" => "PAUSEWATCH_DATA_DIR".to_owned(),
        "otlp_endpoint" => traces::variable().to_owned(),
        _ => format!("PAUSEWATCH_SERVE_{}", key.to_uppercase()),
    }
}

pub(crate) fn is_switch(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
}

pub(crate) fn is_repeatable(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

/// Checks one value of one option; the error says what is wrong or what is allowed.
pub(crate) fn check(serve: &Command, arg: &Arg, value: &str) -> Result<(), String> {
    if is_switch(arg) {
        return if ["true", "false"].contains(&value) { Ok(()) } else { Err("expected true or false".into()) };
    }
    let argument = format!("--{}={value}", arg.get_long().unwrap_or_default());
    let parsed = serve.clone().no_binary_name(true).try_get_matches_from([argument]);
    parsed.map(drop).map_err(|error| match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(allowed)) if !allowed.is_empty() => {
            format!("expected one of {}", allowed.join(", "))
        }
        _ => error.source().map_or_else(|| "the value is missing".into(), ToString::to_string),
    })
}
