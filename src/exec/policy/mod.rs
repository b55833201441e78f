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
//! P3. No text that was read decides that something runs outside the sandbox without a person. `allow`, and a person's yes to a line, take
//!     out single programs that the kernel reports, as `line_commands` says. A yes takes out a whole line only where programs are not judged.
//! P4. Whatever the line, reading it takes linear time and memory, and never panics.
mod code_paths;
mod code_variables;
mod escalation;
mod evaluate;
mod exec;
mod git;
mod harmless;
mod interpreters;
mod libraries;
mod line_commands;
mod load;
mod prompt;
mod reach;
mod risky_allow;
mod rule;
mod settings;
mod shell;
mod shown;
mod streams;
mod unseen;

pub(crate) use code_paths::code_paths;
pub(crate) use code_variables::may_run_code;
pub use escalation::{Action, Asker, AskingPolicy, EscalationPolicy, Question};
pub use evaluate::{Judgement, Rules};
pub(crate) use exec::MAX_CHANGED_ENV;
pub use exec::{Exec, Lineage, Place};
pub(crate) use harmless::is_harmless;
pub(crate) use line_commands::{Exposed, LineCommands, LineSetting};
pub use load::LoadError;
pub(crate) use prompt::Prompt;
pub(crate) use reach::{Reach, can_write, is_executable_file, is_owner};
pub(crate) use risky_allow::warnings_about_allow;
pub use rule::Decision;
pub(crate) use shown::command_of;
pub use streams::{Stream, StreamKind};
