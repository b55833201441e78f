//! `pausewatch completions` and `pausewatch man`: what shells and man(1) read, out of what parses the command line.
use super::{Program, exit, failure};
use clap::CommandFactory;
use clap_complete::Shell;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The arguments of `completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
  bash: pausewatch completions bash > ~/.local/share/bash-completion/completions/pausewatch
  zsh:  pausewatch completions zsh > a directory of $fpath, as _pausewatch
  fish: pausewatch completions fish > ~/.config/fish/completions/pausewatch.fish")]
pub struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

/// The arguments of `man`.
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// Write all pages there, as pausewatch.1, pausewatch-serve.1 and so on; without it, the first goes to standard output.
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// Prints the completions of a shell.
pub fn completions(args: CompletionsArgs) -> ExitCode {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Program::command(), "pausewatch", &mut text);
    written("completions", io::stdout().write_all(&text))
}

/// Prints a manual page, or writes all.
pub fn man(args: ManArgs) -> ExitCode {
    let done = match args.directory {
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Program::command().disable_help_subcommand(true))
                .render(&mut page)
                .and_then(|()| io::stdout().write_all(&page))
        }
        Some(directory) => write_pages(&directory),
    };
    written("man", done)
}

fn write_pages(directory: &Path) -> io::Result<()> {
    let told = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", directory.display()));
    std::fs::create_dir_all(directory).map_err(told)?;
    clap_mangen::generate_to(Program::command(), directory).map_err(told)
}

fn written(command: &str, done: io::Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // Who reads on has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            failure::say(command, &error.to_string());
            ExitCode::from(exit::FAILED)
        }
    }
}
