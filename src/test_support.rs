//! The items that tests, benchmarks and fuzz targets of this repository use beyond the public API.
//!
//! Not part of the API: any version may change it.

#[cfg(feature = "server")]
pub mod clock {
    pub use crate::clock::{Clock, Manual, System};
}

#[cfg(feature = "server")]
pub mod core {
    pub use crate::core::{
        Answer, Change, Command, DecideInputs, Effect, Elicitation, ElicitationRef, Header, Open, Pause, PauseEnd,
        Record, Refusal, RememberedAnswer, RememberedClosing, RememberedRequest, Rpc, Timestamp, decide,
    };
    pub mod scope {
        pub use crate::core::scope::Scope;
    }
    pub mod types {
        pub use crate::core::types::{ElicitationId, InvalidField, MAX_TTL, MIN_TTL, ThreadId, Ttl};
    }
}

#[cfg(feature = "server")]
pub mod coordinator {
    pub use crate::coordinator::{
        Call, ChangeObserver, Changed, Coordinator, Engine, Fatal, IDLE_SPAN, Outcome, Settings,
    };
}

#[cfg(feature = "server")]
pub mod hub {
    pub use crate::coordinator::hub::{
        ClosedElicitation, Committed, EndedPause, Event, History, Hub, OpenElicitation, PauseFilter, View,
    };
}

#[cfg(feature = "server")]
pub mod store {
    pub use crate::coordinator::store::{
        CommitError, Contents, Disk, Embedded, FORMAT, Memory, OpenError, RESERVE_BYTES, Snapshot, Store, Write,
        restore,
    };
}

#[cfg(feature = "etcd")]
pub mod etcd {
    pub use crate::coordinator::store::etcd::{
        ClusterClock, Endpoints, Etcd, Fleet, FleetConfig, Kv, KvError, Leader, LeaderClock, Progress, Pulse,
        SpaceUsage, Tail, Term, Work, wire,
    };
    pub use crate::server::ReplicaConfig;
    pub use crate::server::fleet::{LeaderLink, Leading, Leads, Looking, ReplicaClock, Vouched};
}

#[cfg(feature = "server")]
pub mod quota {
    pub use crate::coordinator::quota::{Accounts, CallerKey, LimitPair, Limits};
}

#[cfg(feature = "server")]
pub mod metrics {
    pub use crate::coordinator::metrics::Metrics;
}

#[cfg(all(feature = "server", unix))]
pub mod access {
    pub use crate::server::access::{Access, AccessConfig, Grant, JwtConfig, Role, mint};
}

#[cfg(all(feature = "server", unix))]
pub mod server {
    pub use crate::server::grpc::Elicitations;
    pub use crate::server::{serve_connections, serve_service, with_connect};
}

#[cfg(feature = "cli")]
pub mod cli {
    pub use crate::cli::Program;
    pub use crate::cli::asker::pinentry::Questions as PinentryQuestions;
    pub use crate::cli::bridge::{ClientLine, complete_initialize, is_for_client};
    pub use crate::cli::duration::{parse as parse_duration, parse_ttl, show as show_duration};
    pub use crate::cli::exit::USAGE;
    pub use crate::cli::history::Replay as AuditReplay;
    pub use crate::cli::hook::claude::{BashCall, Event as ClaudeEvent, Timeouts as ClaudeTimeouts};
    pub use crate::cli::run::parse_duration as parse_timeout_duration;
}

#[cfg(all(feature = "exec-server", unix))]
pub mod sandbox {
    pub use crate::exec::sandbox::{Enforcement, Sandbox};
}
