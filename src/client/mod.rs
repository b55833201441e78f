//! The client library: calls to a coordinator, elicitations that a guard holds open, and a watch that reconnects.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use pausewatch::client::Client;
//!
//! let client = Client::from_env()?;
//! let hold = client.hold("thread-1").reason("May I download the history?").open().await?;
//! // ... ask the person; the timeouts of thread-1's commands are frozen meanwhile ...
//! let ending = hold.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! | type | content |
//! | --- | --- |
//! | [`Address`] | the address of a coordinator, in the scheme that all our programs and libraries share |
//! | [`Settings`] | the address, the thread and the credentials from the environment and the config file |
//! | [`Client`] | the RPCs, each with a deadline and with retries that count once |
//! | [`Hold`] | an open elicitation: renewed in the background, closed when it is released or dropped |
//! | [`Watch`] | the states of a changing set of threads, across reconnects |
//! | [`Error`] | one variant for each thing that a caller does next |
//!
//! Invariants:
//! 1. Every attempt of a retried call carries the same request id, so the call counts once (G4).
//! 2. Everything ends: a call with its deadline, a release in the background with its lease. Only a [`Watch`] runs until
//!    it is dropped.
//! 3. Elicitations that this library leaves open when its process dies are bounded by their leases (G2).

mod address;
mod calls;
mod config;
mod config_error;
mod connect;
pub(crate) mod error;
mod hold;
mod input_file;
mod lanes;
pub(crate) mod not_grpc;
mod pem;
mod retry;
mod route;
mod serial_executor;
mod settings;
pub mod stopwatch;
mod tls;
mod token;
#[cfg(all(test, feature = "cli"))]
mod vectors;
mod watch;

pub use address::{Address, AddressError, Replicas};
pub use calls::Client;
pub use config::Config;
pub use config_error::ConfigError;
pub use error::Error;
pub use hold::{Hold, HoldBuilder, Lease, LeaseRisk, Release};
pub use settings::Settings;
pub use tls::Tls;
pub use token::{Token, TokenSource};
pub(crate) use watch::Message;
pub use watch::{Event, Update, Watch};

/// The messages of the calls, as generated from the proto.
pub use crate::proto::v1::{
    ClosedElicitation, DecrementElicitationRequest, DecrementElicitationResponse, Elicitation, GetPauseStateRequest,
    GetPauseStateResponse, IncrementElicitationRequest, IncrementElicitationResponse, ListPauseStatesRequest,
    ListPauseStatesResponse, ListPausesRequest, ListPausesResponse, Pause, PauseEnd, PauseState,
    RenewElicitationRequest, RenewElicitationResponse, WatchPauseStateRequest, WatchPauseStateResponse,
};

#[cfg(feature = "cli")]
pub(crate) use connect::channel;
#[cfg(feature = "cli")]
pub(crate) use connect::channel_over;
#[cfg(feature = "cli")]
pub(crate) use input_file::{is_pipe_or_device, read_text};
pub(crate) use retry::deadline_after;
#[cfg(feature = "cli")]
pub(crate) use settings::{ignored_config_file, read_config_file};
