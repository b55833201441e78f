//! `pausewatch completions` and `pausewatch man`: completion scripts and manual pages, generated from the definition of
//! the command line.
use super::failure::{Failure, exit_code};
use super::output::{finish, print};
use crate::client::Address;
use crate::server::links::end_of_links;
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use std::io;
use std::path::{Path, PathBuf};
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
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let result = match args.directory {
        Some(directory) => std::fs::create_dir_all(&directory)
            .and_then(|()| write_pages(&program, &directory))
            .map_err(|error| Failure::System(format!("write the manual pages to {}", directory.display()), error)),
        None => print(page(&program).as_bytes()),
    };
    exit_code("man", &Address::default(), result)
}

fn write_pages(command: &Command, directory: &Path) -> io::Result<()> {
    let mut commands = command.get_subcommands().filter(|command| !command.is_hide_set());
    commands.try_for_each(|command| write_pages(command, directory))?;
    let file = end_of_links(directory.join(Man::new(command.clone()).get_filename()))?;
    std::fs::write(file, page(command))
}

/// The page of a command, whose footer names the program and its version. Lines of `after_help` that begin with blanks
/// are code or a list, and stay as they are.
fn page(command: &Command) -> String {
    // An empty date is written as an empty string in quotes: otherwise the version would take its place.
    let man = Man::new(command.clone()).date("\"\"").source(concat!("pausewatch ", env!("CARGO_PKG_VERSION")));
    let mut page = Vec::new();
    man.render(&mut page).expect("writing to memory cannot fail");
    let (mut lines, mut is_code) = (String::new(), false);
    for line in String::from_utf8_lossy(&page).lines() {
        if line.starts_with("  ") != is_code {
            lines += if is_code { ".fi\n" } else { ".nf\n" };
            is_code = !is_code;
        }
        lines = lines + line + "\n";
    }
    lines + if is_code { ".fi\n" } else { "" }
}
