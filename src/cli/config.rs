//! `pausewatch config check`: reports every problem of the configuration, where a server or a client stops at the first.
use super::config_file::ConfigFile;
use super::option_value::OptionValue;
use super::output::finish;
use super::{config_sources, exit, failure, serve};
use crate::client::Settings;
use crate::core::types::ThreadId;
use crate::server;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Check the config file: print every problem with its line and column, and the allowed values.
    Check(Check),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit code: 0 no problem, 1 a problem, or the file cannot be read.

The files that the config file names (certificates, keys, tokens) are read too. It is also checked that the audit trail can be \
written, and that plain text is served on loopback only. Run it as the user of the server. Some problems show only at a start: a \
port in use, a data directory of another user, a damaged store.")]
struct Check {
    /// The config file [env: PAUSEWATCH_CONFIG] [default: $XDG_CONFIG_HOME/pausewatch/config.toml, else
    /// ~/.config/pausewatch/config.toml].
    file: Option<PathBuf>,
    /// Print the settings of clients and of `serve` as they are, including the environment, and where each was set.
    /// Secrets are hidden.
    #[arg(long)]
    print: bool,
}

pub(crate) fn run(args: Args, serve: &clap::Command) -> ExitCode {
    let Command::Check(args) = args.command;
    match check(&args, serve) {
        Ok(text) => finish("config", &text),
        Err(problems) => {
            problems.iter().for_each(|problem| failure::say("config", problem));
            ExitCode::from(exit::FAILED)
        }
    }
}

/// Returns the text to print, or all problems.
fn check(args: &Check, serve: &clap::Command) -> Result<String, Vec<String>> {
    let config = args.file.as_deref();
    let file = ConfigFile::find(config).map_err(|error| vec![error.to_string()])?;
    file.as_ref().map_or(Ok(Vec::new()), |file| file.serve_options(serve))?;
    let client = Settings::from_env_and(config).map_err(|error| vec![error.to_string()])?;
    let place = file.as_ref().map_or("clients".into(), |file| format!("config file {}", file.path.display()));
    let problem = client.config().and_then(|config| config.check()).err();
    let mut problems: Vec<_> = problem.iter().map(|problem| format!("{place}: {problem}")).collect();
    // A thread id in the config file was checked when the file was parsed.
    if let (Some(id), Some(variable)) = (&client.thread_id, client.thread_source()) {
        problems.extend(ThreadId::parse(variable, id).err().map(|problem| problem.to_string()));
    }
    let command_line = serve.clone().no_binary_name(true).get_matches_from([""; 0]);
    let (server, options) = match config_sources::merge::<serve::Args>(serve, &command_line, config) {
        Ok(merged) => merged,
        Err(found) => return Err([problems, found].concat()),
    };
    let found = problems_of_server(server).unwrap_or_else(|why| vec![why]);
    problems.extend(found.iter().map(|problem| format!("serve: {problem}")));
    match file {
        _ if !problems.is_empty() => Err(problems),
        _ if args.print => {
            Ok(format!("{}\n[serve]\n{}", lines(&client_options(&client), quoted), lines(&options, value)))
        }
        Some(file) => Ok(format!("{}: no problems\n", file.path.display())),
        None => Ok("there is no config file: the environment and the defaults apply\n".into()),
    }
}

/// All problems that would keep a server from starting.
fn problems_of_server(args: serve::Args) -> Result<Vec<String>, String> {
    let config = args.config()?;
    let runtime = super::runtime::start();
    let runtime = runtime.map_err(|error| format!("it cannot be checked: {error}"))?;
    Ok(runtime.block_on(server::problems(&config)))
}

fn client_options(settings: &Settings) -> [OptionValue; 7] {
    let path = |path: &Option<PathBuf>| path.clone().map(OsString::from);
    let values = [
        ("address", Some(settings.address.clone().unwrap_or_default().to_string().into())),
        ("thread_id", settings.thread_id.clone().map(OsString::from)),
        ("token", settings.token.as_ref().map(|_| "(hidden)".into())),
        ("token_file", path(&settings.token_file)),
        ("tls_ca", path(&settings.tls_ca)),
        ("tls_cert", path(&settings.tls_cert)),
        ("tls_key", path(&settings.tls_key)),
    ];
    values.map(|(key, value)| {
        let variable = format!("PAUSEWATCH_{}", key.to_uppercase());
        let origin = match std::env::var_os(&variable).is_some_and(|value| !value.is_empty()) {
            true => variable,
            false if key == "address" && settings.address.is_none() => "default".into(),
            false if key == "thread_id" => settings.thread_source.unwrap_or_default().into(),
            false => "config file".into(),
        };
        OptionValue { key: key.into(), values: value.into_iter().collect(), origin }
    })
}

/// TOML that sets the options, with the origin of each value in a comment.
fn lines(options: &[OptionValue], value: fn(&OsString) -> String) -> String {
    let line = |OptionValue { key, values, origin }: &OptionValue| match &values[..] {
        [] => String::new(),
        [one] => format!("{key} = {}  # {origin}\n", value(one)),
        _ => format!("{key} = [{}]  # {origin}\n", values.iter().map(value).collect::<Vec<_>>().join(", ")),
    };
    options.iter().map(line).collect()
}

/// A value of an option of `serve`.
fn value(value: &OsString) -> String {
    let text = value.to_string_lossy();
    match text == "true" || text == "false" || text.parse::<u32>().is_ok() {
        true => text.into_owned(),
        false => quoted(value),
    }
}

/// A string in JSON is a string in TOML, too.
fn quoted(value: &OsString) -> String {
    serde_json::Value::from(value.to_string_lossy()).to_string()
}
