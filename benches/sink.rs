//! The receiver of a watch's states.
use std::sync::Arc;

/// Receives each state of a watched thread: its number, and whether it is paused.
pub(crate) type Sink = Arc<dyn Fn(usize, bool) + Send + Sync>;
