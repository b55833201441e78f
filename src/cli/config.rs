//! `pausewatch config check`: every problem of the config file, before a server or a client meets the first.
use super::config_file::{COMMANDS, ConfigFile};
use super::layers;
use super::{Program, exit, failure};
use crate::client::Settings;
use crate::server;
use clap::CommandFactory;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The arguments of `config`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Check the config file: every problem with its line and column, and what is allowed there.
    Check(Check),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit code: 0 no problem, 1 a problem, or the file cannot be read. The files that it names are read too (certificates, keys, tokens), and \
it is looked whether the audit trail could be written, and plain text is served on loopback alone: check it as the user that the server \
runs as. What only a start can show, it does not find: a port that is taken, a store that is damaged.")]
struct Check {
    /// The file [env: PAUSEWATCH_CONFIG] [default: $XDG_CONFIG_HOME/pausewatch/config.toml, else
    /// ~/.config/pausewatch/config.toml].
    file: Option<PathBuf>,
    /// Print the settings of clients and of `serve` as they are, the environment included, and where each is from. Secrets
    /// are not shown.
    #[arg(long)]
    print: bool,
}

/// Checks.
pub fn run(args: Args) -> ExitCode {
    let What::Check(check) = args.what;
    match problems(check.file.as_deref()) {
        Ok(told) => {
            if check.print {
                print!("{}", effective(check.file.as_deref()));
            } else {
                println!("{told}");
            }
            ExitCode::SUCCESS
        }
        Err(problems) => {
            problems.iter().for_each(|problem| failure::say("config", problem));
            ExitCode::from(exit::FAILED)
        }
    }
}

/// All that is wrong; if nothing is, what to say then.
fn problems(named: Option<&Path>) -> Result<String, Vec<String>> {
    let file = ConfigFile::find(named).map_err(|error| vec![error.to_string()])?;
    let Some(file) = file else {
        return Ok("there is no config file: the environment and the defaults hold".into());
    };
    let place = file.path.display().to_string();
    let told = |why: &dyn std::fmt::Display| format!("config file {place}: {why}");
    let problems = file.read(&Program::command());
    problems.map_err(|problems| problems.iter().map(|problem| told(problem)).collect::<Vec<_>>())?;
    let mut wrong = Vec::new();
    let settings = Settings::from_env_and(named).map_err(|error| vec![error.to_string()])?;
    wrong.extend(settings.config().and_then(|config| config.check()).err().map(|why| told(&why)));
    for command in COMMANDS {
        match layers::complete(command, named) {
            Ok(complete) => wrong.extend(complete.server.iter().flat_map(of_a_start)),
            Err(problems) => wrong.extend(problems),
        }
    }
    if wrong.is_empty() { Ok(format!("{place}: no problems")) } else { Err(wrong) }
}

/// What would keep this server from starting.
fn of_a_start(config: &server::Config) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let problems = match runtime {
        Ok(runtime) => runtime.block_on(server::problems(config)),
        Err(error) => vec![format!("it cannot be checked: {error}")],
    };
    problems.into_iter().map(|problem| format!("serve: {problem}")).collect()
}

/// What holds, as a config file that says so.
fn effective(named: Option<&Path>) -> String {
    let mut text = String::new();
    let settings = Settings::from_env_and(named).unwrap_or_default();
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let of_clients = [
        ("address", Some(settings.address.clone().unwrap_or_default().to_string())),
        ("thread_id", settings.thread_id.clone()),
        ("token", settings.token.as_ref().map(|_| "(hidden)".to_owned())),
        ("tls_ca", path(&settings.tls_ca)),
        ("tls_cert", path(&settings.tls_cert)),
        ("tls_key", path(&settings.tls_key)),
    ];
    for (key, value) in of_clients {
        let variable = format!("PAUSEWATCH_{}", key.to_uppercase());
        let origin = match std::env::var_os(&variable).is_some_and(|value| !value.is_empty()) {
            true => &variable,
            false if key == "address" && settings.address.is_none() => "default",
            false => "config file",
        };
        text.extend(value.map(|value| line(key, &[value], origin)));
    }
    for command in COMMANDS {
        text += &format!("\n[{}]\n", command.replace('-', "_"));
        for (key, values, origin) in
            layers::complete(command, named).map_or_else(|_| Vec::new(), |complete| complete.options)
        {
            if !values.is_empty() {
                text += &line(&key, &values, &origin.to_string());
            }
        }
    }
    text
}

fn line(key: &str, values: &[String], origin: &str) -> String {
    // JSON's strings are TOML's, too.
    let quoted = |value: &String| serde_json::Value::from(value.as_str()).to_string();
    let plain = |value: &String| value == "true" || value == "false" || value.parse::<u32>().is_ok();
    let shown = |value: &String| if plain(value) { value.clone() } else { quoted(value) };
    match values {
        [one] => format!("{key} = {}  # {origin}\n", shown(one)),
        several => format!("{key} = [{}]  # {origin}\n", several.iter().map(shown).collect::<Vec<_>>().join(", ")),
    }
}
