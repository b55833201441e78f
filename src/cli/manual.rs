//! `pausewatch completions` and `pausewatch man`: completion scripts and manual pages, generated from the definition of
//! the command line.
use super::failure::{Failure, exit_code};
use super::output::{finish, print};
use crate::client::Address;
use clap::Command;
use clap_complete::Shell;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Where the script belongs:
  bash: pausewatch completions bash > ~/.local/share/bash-completion/completions/pausewatch
  zsh:  pausewatch completions zsh > a directory of $fpath, as _pausewatch
  fish: pausewatch completions fish > ~/.config/fish/completions/pausewatch.fish")]
pub struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// Write all pages to this directory, as pausewatch.1, pausewatch-serve.1 and so on [default: print pausewatch.1].
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

pub(crate) fn completions(args: CompletionsArgs, program: Command) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut without_hidden(&program), "pausewatch", &mut script);
    finish("completions", &String::from_utf8_lossy(&script))
}

/// A copy without what `--help` does not show: the scripts of clap_complete would offer hidden commands and options.
fn without_hidden(command: &Command) -> Command {
    let arguments = command.get_arguments().filter(|argument| !argument.is_hide_set() || argument.is_positional());
    let commands = command.get_subcommands().filter(|command| !command.is_hide_set());
    let copy = Command::new(command.get_name().to_owned()).args(arguments).subcommands(commands.map(without_hidden));
    let copy = command.get_about().into_iter().fold(copy, |copy, about| copy.about(about.clone()));
    command.get_version().into_iter().fold(copy, |copy, version| copy.version(version.to_owned()))
}

pub(crate) fn man(args: ManArgs, program: Command) -> ExitCode {
    let result = match args.directory {
        Some(directory) => std::fs::create_dir_all(&directory)
            .and_then(|()| clap_mangen::generate_to(program, &directory))
            .map_err(|error| Failure::System(format!("write the manual pages to {}", directory.display()), error)),
        None => {
            let mut page = Vec::new();
            let rendered = clap_mangen::Man::new(program.disable_help_subcommand(true)).render(&mut page);
            rendered.expect("writing to memory cannot fail");
            print(&page)
        }
    };
    exit_code("man", &Address::default(), result)
}
