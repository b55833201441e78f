//! The threads of a watch, and the last reported state of each. Decides which states are reported.
use super::super::PauseState;
use super::event::Update;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::replace;
use std::sync::Arc;

#[derive(Debug, Default)]
pub(super) struct Reported {
    /// The watched threads; in a watch of all threads, those that are paused.
    threads: BTreeMap<Arc<str>, Thread>,
    /// The threads of the set that the coordinator has refused on this stream.
    refused: BTreeSet<Arc<str>>,
}

#[derive(Debug)]
struct Thread {
    /// The epoch and the revision of the last reported state.
    version: Option<(u64, u64)>,
    gap: bool,
}

impl Reported {
    pub(super) fn contains(&self, thread_id: &str) -> bool {
        self.threads.contains_key(thread_id)
    }

    /// Adds a thread; with `gap`, changes may have been missed before its first state.
    pub(super) fn add(&mut self, thread_id: Arc<str>, gap: bool) {
        self.threads.insert(thread_id, Thread { version: None, gap });
    }

    pub(super) fn remove(&mut self, thread_id: &str) -> Option<Arc<str>> {
        self.refused.remove(thread_id);
        self.threads.remove_entry(thread_id).map(|(thread_id, _)| thread_id)
    }

    pub(super) fn len(&self) -> usize {
        self.threads.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = Arc<str>> {
        self.threads.keys().cloned()
    }

    /// Whether threads of the set are refused.
    pub(super) fn has_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Records a state; `None`: its thread is not watched, or the state was already reported.
    pub(super) fn update(&mut self, state: PauseState) -> Option<Update> {
        let thread = self.threads.get_mut(state.thread_id.as_str())?;
        self.refused.remove(state.thread_id.as_str());
        let version = Some((state.store_epoch, state.revision));
        let (gap, changed) = (replace(&mut thread.gap, false), replace(&mut thread.version, version) != version);
        (gap || changed).then_some(Update { state, gap, changed })
    }

    /// Notes that threads are refused. Returns those of the set that were not refused before.
    pub(super) fn refuse(&mut self, thread_ids: Vec<Arc<str>>) -> Vec<Arc<str>> {
        let is_news = |id: &Arc<str>| self.threads.contains_key(id) && self.refused.insert(id.clone());
        thread_ids.into_iter().filter(is_news).collect()
    }

    /// Notes that the stream has ended: changes may be missed until the next one.
    pub(super) fn on_disconnected(&mut self) {
        self.threads.values_mut().for_each(|thread| thread.gap = true);
        self.refused.clear();
    }
}
