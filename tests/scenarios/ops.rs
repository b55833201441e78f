//! The operations and their arguments: the tables of clients/scenarios/README.md.
//!
//! Any other operation is an error in the case, and is found before anything is played.

/// An operation: its name, its required arguments, and its optional ones.
pub(crate) struct Op(&'static str, &'static [&'static str], &'static [&'static str]);

/// The operations of players.
const PLAYER: &[Op] = &[
    Op("client", &["client", "address"], &["environment", "deadline_ms", "retries", "tls_ca", "token", "token_file"]),
    Op("close", &["client"], &[]),
    Op("increment", &["client", "thread_id"], &["request_id", "reason", "holder", "ttl_ms"]),
    Op("decrement", &["client", "thread_id"], &["elicitation_id", "request_id"]),
    Op("renew", &["client", "thread_id", "elicitation_id"], &["ttl_ms"]),
    Op("get", &["client", "thread_id"], &[]),
    Op("list", &["client"], &["page_size", "page_token", "include_running"]),
    Op("list_pauses", &["client"], &["thread_id", "page_size", "page_token"]),
    Op("hold", &["client", "hold"], &["thread_id", "reason", "holder", "ttl_ms", "best_effort"]),
    Op("release", &["hold"], &[]),
    Op("lease", &["hold"], &[]),
    Op("lost", &["hold"], &[]),
    Op("hold_block", &["client", "thread_id", "stay_ms", "throws"], &["ttl_ms", "best_effort"]),
    Op("watch", &["client", "watch"], &["thread_ids", "include_elicitations", "observer"]),
    Op("next", &["watch", "within_ms"], &[]),
    Op("add", &["watch", "thread_id"], &[]),
    Op("remove", &["watch", "thread_id"], &[]),
    Op("unwatch", &["watch"], &[]),
    Op("timeout", &["client", "timeout", "thread_id", "limit_ms"], &["max_wall_ms", "disconnect_grace_ms"]),
    Op("read", &["timeout"], &[]),
    Op("expired", &["timeout"], &[]),
    Op("pause", &["timeout", "pause"], &[]),
    Op("resume", &["timeout", "pause"], &[]),
    Op("await_thread", &["timeout", "wait", "thread_id"], &[]),
    Op("unawait_thread", &["timeout", "wait"], &[]),
    Op("stop", &["timeout"], &[]),
    Op("expire_together", &["client", "count", "limit_ms"], &[]),
    Op("timeout_block", &["client", "thread_id", "limit_ms", "work_ms"], &["max_wall_ms"]),
];

/// The operations of the stage.
const STAGE: &[Op] = &[
    Op("wait", &["ms"], &[]),
    Op("stop_server", &["how"], &[]),
    Op("start_server", &[], &[]),
    Op("cut", &[], &["replica"]),
    Op("hang", &[], &["replica"]),
    Op("drain", &[], &["replica"]),
    Op("mend", &[], &["replica"]),
    Op("swallow_answers", &[], &["replica"]),
    Op("mute_watches", &[], &["replica"]),
    Op("streams", &[], &["replica"]),
    Op("kill_player", &["player"], &[]),
    Op("state", &["thread_id"], &[]),
    Op("flip", &["thread_id", "times"], &[]),
    Op("drain_watch", &["watch", "thread_id"], &["player"]),
    Op("check", &["value"], &[]),
    Op("increment", &["thread_id"], &["request_id", "reason", "holder", "ttl_ms"]),
    Op("decrement", &["thread_id"], &["elicitation_id", "request_id"]),
    Op("token", &["role"], &["thread_id", "prefix", "ttl", "file"]),
    Op("race", &["limit_ms", "leads_ms"], &["player"]),
];

/// The operations of the stage that need a proxy.
pub(crate) const NEED_PROXY: [&str; 7] = ["cut", "hang", "drain", "mend", "swallow_answers", "mute_watches", "streams"];

impl Op {
    pub(crate) fn of_player(name: &str) -> Option<&'static Op> {
        PLAYER.iter().find(|op| op.0 == name)
    }

    pub(crate) fn of_stage(name: &str) -> Option<&'static Op> {
        STAGE.iter().find(|op| op.0 == name)
    }

    pub(crate) fn needs(&self, argument: &str) -> bool {
        self.1.contains(&argument)
    }

    /// Returns an error for a missing or an unknown argument.
    pub(crate) fn check<'a>(&self, arguments: impl Iterator<Item = &'a String> + Clone) -> Result<(), String> {
        let known = |argument: &&String| self.1.contains(&argument.as_str()) || self.2.contains(&argument.as_str());
        if let Some(unknown) = arguments.clone().find(|argument| !known(argument)) {
            return Err(format!("{} takes no {unknown:?}", self.0));
        }
        match self.1.iter().find(|needed| !arguments.clone().any(|argument| argument == *needed)) {
            Some(missing) => Err(format!("{} needs {missing:?}", self.0)),
            None => Ok(()),
        }
    }
}
