//! The rules, as pure functions: no clock is read, nothing is sent, stored or locked here; the time is an argument.
//!
//! A call becomes a [`Command`], [`decide`] judges it against one thread's [`Record`], and what it answers holds the
//! change, if there is one. The caller applies the change, makes it durable, publishes it, or reverts it.
#[cfg(feature = "server")]
mod accounting;
#[cfg(feature = "server")]
mod error;
mod limit;
#[cfg(feature = "server")]
mod memory;
#[cfg(feature = "server")]
mod record;
#[cfg(feature = "server")]
pub mod scope;
#[cfg(feature = "server")]
mod thread;
pub mod types;

#[cfg(feature = "server")]
pub use accounting::{Moment, Pause};
#[cfg(feature = "server")]
pub use error::Refusal;
pub use limit::{Exceeded, Limit};
#[cfg(feature = "server")]
pub use memory::{Closing, MEMORY_SPAN, Memory, RememberedAnswer, RememberedClosing, RememberedRequest, Rpc};
#[cfg(feature = "server")]
pub use record::{Change, Effect, Elicitation, Header, Open, Record};
#[cfg(feature = "server")]
pub use thread::{Answer, Command, Decision, Fresh, Named, decide};
