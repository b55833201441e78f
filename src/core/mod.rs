//! The rules, as pure functions: no clock is read, nothing is sent, stored or locked here; the time is an argument.
//!
//! A call becomes a [`Command`]. [`decide`] evaluates it against one thread's [`Record`] and returns the answer, with a
//! [`Change`] if there is one. The caller of `decide` applies the change, makes it durable and publishes it, or reverts
//! it.
#[cfg(feature = "server")]
mod accounting;
#[cfg(feature = "server")]
mod cap;
#[cfg(feature = "server")]
mod error;
#[cfg(feature = "server")]
mod idempotency;
mod limit;
#[cfg(feature = "server")]
mod pause_end;
#[cfg(feature = "server")]
mod record;
#[cfg(feature = "server")]
pub(crate) mod scope;
#[cfg(feature = "server")]
mod thread;
pub(crate) mod types;

#[cfg(feature = "server")]
pub use accounting::{Pause, Timestamp};
#[cfg(feature = "server")]
pub(crate) use cap::{cap, cut};
#[cfg(feature = "server")]
pub use error::Refusal;
#[cfg(feature = "server")]
pub(crate) use idempotency::MEMORY_SPAN;
#[cfg(feature = "server")]
pub use idempotency::{RememberedAnswer, RememberedClosing, RememberedRequest, Rpc};
pub(crate) use limit::{Exceeded, Limit};
#[cfg(feature = "server")]
pub use pause_end::PauseEnd;
#[cfg(feature = "server")]
pub use record::{Change, Effect, Elicitation, Header, Open, Record};
#[cfg(feature = "server")]
pub use thread::{Answer, Command, DecideInputs, ElicitationRef, decide};
