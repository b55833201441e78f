//! Merges the options of `serve` from the command line, the environment and the config file. The first of these that
//! sets an option takes precedence; otherwise the default applies.
use super::config_file::ConfigFile;
use super::option_value::{OptionValue, check, is_repeatable, is_switch, options, variable};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, FromArgMatches};
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// All options of `serve`, parsed and with their origins, or all problems in the environment and the config file.
pub(crate) fn merge<A: FromArgMatches>(
    serve: &Command,
    command_line: &ArgMatches,
    config: Option<&Path>,
) -> Result<(A, Vec<OptionValue>), Vec<String>> {
    let mut set = environment_and_file(serve, config)?;
    let is_given = |arg: &Arg| command_line.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
    for (key, arg) in options(serve).filter(|(_, arg)| is_given(arg)) {
        set.push(OptionValue { key, values: values_of(arg, command_line), origin: "command line".into() });
    }
    let winner = |key: &str| set.iter().rfind(|option| option.key == key);
    let arguments = options(serve).filter_map(|(key, arg)| Some(arguments(arg, winner(&key)?))).flatten();
    let merged = serve.clone().no_binary_name(true).try_get_matches_from(arguments);
    let merged = merged.map_err(|error| vec![error.to_string()])?;
    let default = |key, arg| OptionValue { key, values: values_of(arg, &merged), origin: "default".into() };
    let all = options(serve).map(|(key, arg)| winner(&key).cloned().unwrap_or_else(|| default(key, arg))).collect();
    Ok((A::from_arg_matches(&merged).map_err(|error| vec![error.to_string()])?, all))
}

/// The value of one option of `serve` in the environment or the config file.
pub(crate) fn find(serve: &Command, key: &str, config: Option<&Path>) -> Result<Option<OsString>, Vec<String>> {
    let set = environment_and_file(serve, config)?;
    Ok(set.into_iter().rfind(|option| option.key == key).and_then(|option| option.values.into_iter().next()))
}

/// The options of `serve` that the environment and the config file set, those with the lowest precedence first. An
/// empty variable counts as not set.
pub(crate) fn environment_and_file(serve: &Command, config: Option<&Path>) -> Result<Vec<OptionValue>, Vec<String>> {
    let file = ConfigFile::find(config).map_err(|error| vec![error.to_string()])?;
    let mut set = file.map_or(Ok(Vec::new()), |file| file.serve_options(serve))?;
    let mut problems = Vec::new();
    for (key, arg) in options(serve) {
        let name = variable(&key);
        let Some(value) = env::var_os(&name).filter(|value| !value.is_empty()) else { continue };
        let Some(value) = value.to_str() else {
            problems.push(format!("{name}: not UTF-8"));
            continue;
        };
        let values: Vec<_> = match is_repeatable(arg) {
            true => value.split(',').map(str::trim).collect(),
            false => vec![value],
        };
        let wrong = values.iter().filter_map(|value| check(serve, arg, value).err());
        problems.extend(wrong.map(|why| format!("{name}: {why}")));
        let values = values.into_iter().map(OsString::from).collect();
        set.push(OptionValue { key, values, origin: name });
    }
    problems.extend(misspelt(serve));
    if problems.is_empty() { Ok(set) } else { Err(problems) }
}

/// Variables that look like those of options and are not: a typing error must not silently select the default.
fn misspelt(serve: &Command) -> Vec<String> {
    let known: Vec<_> = options(serve).map(|(key, _)| variable(&key)).collect();
    let prefix = variable("");
    // Kubernetes sets these for a service that is called pausewatch-serve.
    let is_service = |rest: &str| {
        rest == "PORT" || ["PORT_", "SERVICE_HOST", "SERVICE_PORT"].iter().any(|begin| rest.starts_with(begin))
    };
    let set = env::vars_os().filter(|(_, value)| !value.is_empty());
    let names = set.filter_map(|(name, _)| name.into_string().ok()).filter(|name| !known.contains(name));
    let mut wrong: Vec<_> = names
        .filter_map(|name| {
            let rest = name.strip_prefix(&prefix).filter(|rest| !is_service(rest))?;
            let meant = known.iter().find(|known| {
                known.ends_with(&format!("_{rest}")) || known.starts_with(&name) || name.starts_with(known.as_str())
            });
            let meant =
                meant.map_or("`pausewatch serve --help` has the options".into(), |meant| format!("is {meant} meant?"));
            Some(format!("{name}: there is no such option; {meant}"))
        })
        .collect();
    wrong.sort();
    wrong
}

fn values_of(arg: &Arg, matches: &ArgMatches) -> Vec<OsString> {
    matches.get_raw(arg.get_id().as_str()).into_iter().flatten().map(OsStr::to_owned).collect()
}

fn arguments(arg: &Arg, option: &OptionValue) -> Vec<OsString> {
    let name = format!("--{}", arg.get_long().unwrap_or_default());
    if is_switch(arg) {
        return if option.values == ["true"] { vec![name.into()] } else { Vec::new() };
    }
    let with_value = |value: &OsString| [OsStr::new(&name), value].join(OsStr::new("="));
    option.values.iter().map(with_value).collect()
}
