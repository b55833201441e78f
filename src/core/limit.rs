//! Limits, and the refusal when one is reached.
use std::time::Duration;

/// A limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Connections.
    Connections,
    /// Connections of one peer.
    ConnectionsPerCaller,
    /// Streams: watches, and those of health and reflection.
    Streams,
    /// Streams of one caller.
    StreamsPerCaller,
    /// Thread ids that watches name.
    WatchedThreads,
    /// Thread ids that the watches of one caller name.
    WatchedThreadsPerCaller,
    /// Open elicitations.
    OpenElicitations,
    /// Open elicitations that one caller has opened.
    OpenElicitationsPerCaller,
    /// Known threads.
    Threads,
    /// Known threads that one caller was the first to name.
    ThreadsPerCaller,
    /// Calls a second.
    CallsPerSecond,
    /// Calls a second of one caller.
    CallsPerSecondPerCaller,
    /// Increments that are remembered.
    RememberedIncrements,
    /// Increments of one caller that are remembered.
    RememberedIncrementsPerCaller,
}

impl Limit {
    /// All, in the order of their declaration.
    pub const ALL: [Limit; 14] = [
        Limit::Connections,
        Limit::ConnectionsPerCaller,
        Limit::Streams,
        Limit::StreamsPerCaller,
        Limit::WatchedThreads,
        Limit::WatchedThreadsPerCaller,
        Limit::OpenElicitations,
        Limit::OpenElicitationsPerCaller,
        Limit::Threads,
        Limit::ThreadsPerCaller,
        Limit::CallsPerSecond,
        Limit::CallsPerSecondPerCaller,
        Limit::RememberedIncrements,
        Limit::RememberedIncrementsPerCaller,
    ];

    /// Its name: that of the option of `serve`, without `--max-`.
    pub fn name(self) -> &'static str {
        match self {
            Limit::Connections => "connections",
            Limit::ConnectionsPerCaller => "connections-per-caller",
            Limit::Streams => "streams",
            Limit::StreamsPerCaller => "streams-per-caller",
            Limit::WatchedThreads => "watched-threads",
            Limit::WatchedThreadsPerCaller => "watched-threads-per-caller",
            Limit::OpenElicitations => "open-elicitations",
            Limit::OpenElicitationsPerCaller => "open-elicitations-per-caller",
            Limit::Threads => "threads",
            Limit::ThreadsPerCaller => "threads-per-caller",
            Limit::CallsPerSecond => "calls-per-second",
            Limit::CallsPerSecondPerCaller => "calls-per-second-per-caller",
            Limit::RememberedIncrements => "remembered-increments",
            Limit::RememberedIncrementsPerCaller => "remembered-increments-per-caller",
        }
    }
}

/// A limit that was reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} ({was} of {allowed}): {}", limit.name(), self.advice())]
pub struct Exceeded {
    /// Which.
    pub limit: Limit,
    /// The amount without the refused call.
    pub was: u64,
    /// The maximum.
    pub allowed: u64,
    /// The caller; `None`: a limit in total.
    pub caller: Option<Box<str>>,
    /// When another try may help.
    pub retry_after: Duration,
}

impl Exceeded {
    fn advice(&self) -> String {
        let what = match self.limit {
            Limit::Connections | Limit::ConnectionsPerCaller => "close connections that are not needed",
            Limit::Streams | Limit::StreamsPerCaller => "close watches, or watch several threads on one stream",
            Limit::WatchedThreads | Limit::WatchedThreadsPerCaller => "watch fewer threads",
            Limit::OpenElicitations | Limit::OpenElicitationsPerCaller => "close elicitations first",
            Limit::Threads | Limit::ThreadsPerCaller => {
                "use fewer threads; one is forgotten after a day without a change"
            }
            Limit::CallsPerSecond | Limit::CallsPerSecondPerCaller => "call less often",
            Limit::RememberedIncrements | Limit::RememberedIncrementsPerCaller => {
                "open fewer elicitations; each is remembered for 10 minutes"
            }
        };
        match &self.caller {
            Some(caller) => format!("the caller {caller} is at its limit; {what}"),
            None => format!("the server is at its limit; {what}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_has_the_place_of_its_number() {
        Limit::ALL.into_iter().enumerate().for_each(|(number, limit)| assert_eq!(limit as usize, number));
    }
}
