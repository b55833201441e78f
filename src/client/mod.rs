//! The client library: calls to a coordinator, an elicitation held open by a guard, and a watch that heals itself.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use pausewatch::client::Client;
//!
//! let client = Client::from_env()?;
//! let hold = client.hold("thread-1").reason("May I download the history?").open().await?;
//! // ... ask the person; the commands of thread-1 are not charged meanwhile ...
//! let ending = hold.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! | type | is |
//! | --- | --- |
//! | [`Address`] | where a coordinator listens, in the one scheme that every program and library of ours reads |
//! | [`Settings`] | what the environment and the config file say of it, of the thread and of credentials |
//! | [`Client`] | the RPCs, each with a deadline and retries that count once |
//! | [`Hold`] | an open elicitation: renewed while it lives, closed when it is released or dropped |
//! | [`Watch`] | the states of a changing set of threads, across lost connections |
//! | [`Error`] | one variant for each thing that a caller does next |
//!
//! Invariants:
//! 1. A call that is retried carries the same request id each time, so it counts once (G4).
//! 2. Nothing waits for ever: a call ends with its deadline, a background release with its lease. Only a [`Watch`] goes
//!    on until it is dropped; that is its purpose.
//! 3. What this library leaves behind when it dies is bounded by a lease (G2).

mod address;
mod calls;
mod config;
mod config_error;
mod connect;
mod credentials;
mod error;
mod hold;
mod retry;
mod serial_executor;
mod settings;
pub mod stopwatch;
mod watch;

pub use address::{Address, AddressError};
pub use calls::Client;
pub use config::Config;
pub use config_error::ConfigError;
pub use credentials::{Tls, Token};
pub use error::Error;
pub use hold::{Hold, HoldBuilder, Lease, Release};
pub use settings::Settings;
pub use watch::{Event, Update, Watch};

/// The messages of the calls, as generated from the proto.
pub use crate::proto::v1::{
    DecrementElicitationRequest, DecrementElicitationResponse, Elicitation, GetPauseStateRequest,
    GetPauseStateResponse, IncrementElicitationRequest, IncrementElicitationResponse, ListPauseStatesRequest,
    ListPauseStatesResponse, PauseState, RenewElicitationRequest, RenewElicitationResponse, WatchPauseStateRequest,
    WatchPauseStateResponse,
};

#[cfg(feature = "cli")]
pub(crate) use connect::{channel, channel_over};
pub(crate) use retry::after;
#[cfg(feature = "cli")]
pub(crate) use settings::read_config_file;
pub(crate) use watch::check_thread_id;
