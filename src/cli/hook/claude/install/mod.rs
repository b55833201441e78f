//! `hook claude install` and `uninstall`: the hook in the settings of Claude Code.
//!
//! 1. Both print the difference before they write, and write nothing if there is none.
//! 2. A file that is not JSON, or has another type where an entry belongs, is an error and stays as it is.
mod file;
mod settings;

use super::{
    own_path,
    report::{failed, say},
};
use crate::cli::output;
use diffy::DiffOptions;
use file::SettingsFile;
use std::{env, path::PathBuf, process::ExitCode};

/// The arguments of `install` and `uninstall`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Change the settings of the project in the current directory (.claude/settings.json) instead of the user's
    /// ($CLAUDE_CONFIG_DIR/settings.json, else ~/.claude/settings.json).
    #[arg(long)]
    project: bool,
    /// Print the difference and change nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn install(args: &Args) -> ExitCode {
    change(args, |text| {
        let installed = settings::install(text, &own_path::quoted()?)?;
        Ok((installed.text, installed.notes))
    })
}

pub(crate) fn uninstall(args: &Args) -> ExitCode {
    change(args, |text| Ok((settings::uninstall(text, &own_path::quoted()?)?, Vec::new())))
}

fn change(args: &Args, edit: impl Fn(&str) -> Result<(String, Vec<String>), String>) -> ExitCode {
    match try_to_change(args, edit) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => failed(&why),
    }
}

fn try_to_change(args: &Args, edit: impl Fn(&str) -> Result<(String, Vec<String>), String>) -> Result<(), String> {
    let file = SettingsFile::read(path(args.project)?)?;
    let shown = file.shown();
    let (new, notes) = edit(file.text()).map_err(|why| format!("{shown}: {why}; the file was not changed"))?;
    let difference = match new == file.text() {
        true => format!("{shown}: nothing to change\n"),
        false => {
            let before = if file.exists() { file.text() } else { "" };
            let mut options = DiffOptions::new();
            options.set_original_filename(shown.clone()).set_modified_filename(shown.clone());
            options.create_patch(before, &new).to_string()
        }
    };
    output::print(difference.as_bytes()).map_err(|error| error.to_string())?;
    notes.iter().for_each(|note| say(note));
    if new != file.text() && !args.dry_run {
        file.write(&new)?;
    }
    Ok(())
}

fn path(project: bool) -> Result<PathBuf, String> {
    if project {
        return Ok(PathBuf::from(".claude/settings.json"));
    }
    let named = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let directory = named("CLAUDE_CONFIG_DIR").or_else(|| Some(named("HOME")?.join(".claude")));
    Ok(directory.ok_or("HOME is not set: set CLAUDE_CONFIG_DIR, or use --project")?.join("settings.json"))
}
