//! The policy: rules about commands, and how a command line is judged by them.
//!
//! ```text
//! command line -> shell (every simple command in it, and every doubt) -> rules -> Judgement -> EscalationPolicy -> Action
//! program that a running command is about to execute (Exec) -----------> rules -> Judgement -> EscalationPolicy -> Action
//! ```
//!
//! A rule names the first words of a command and says `allow`, `prompt` or `forbidden`. Programs are judged when
//! they are executed. The text of a line is read for the commands that execution does not show, or shows too late
//! (`shell`); the strictest judgement of its commands decides.
//!
//! P1. A line that runs a forbidden command is never judged `allow`.
//! P2. A doubt never makes a judgement milder. A line that cannot be read with certainty is prompted, unless
//!     something in the line is forbidden anyway. (If no rule prompts or forbids, there is nothing to be in doubt
//!     about: it runs in the sandbox. And if programs are judged as they are executed, a doubt matters only where
//!     execution does not show what runs: `unseen`.)
//! P3. `allow` means outside the sandbox, so it holds only for a line of plain words whose every command is allowed, that writes no file by
//!     a redirection, and that sets no variable which could make an allowed program run another. An allowed line with git, or a
//!     program like it, runs inside the sandbox: its settings, which name programs to run, can be written there.
//!     A single program of another line leaves the sandbox only as `line_commands` says.
//! P4. Whatever the line, reading it takes linear time and memory, and never panics.
mod code_paths;
mod code_variables;
mod escalation;
mod evaluate;
mod exec;
mod git;
mod line_commands;
mod load;
mod prompt;
mod rule;
mod settings;
mod shell;
mod unseen;

pub(crate) use code_paths::code_paths;
pub(crate) use code_variables::may_run_code;
pub use escalation::{Action, Asker, AskingPolicy, EscalationPolicy, Question};
pub use evaluate::{Judgement, Rules};
pub(crate) use exec::MAX_CHANGED_ENV;
pub use exec::{Exec, Lineage, Place};
pub use line_commands::LineCommands;
pub(crate) use line_commands::{is_executable_file, is_harmless};
pub use load::LoadError;
pub(crate) use prompt::{Prompt, command_of};
pub use rule::Decision;
