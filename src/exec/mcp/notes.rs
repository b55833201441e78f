//! Notes for the caller of a command about the programs in it.
use std::sync::{Mutex, PoisonError};

/// The maximum of notes that are kept for one result.
const MAX_NOTES: usize = 10;

/// Notes for the next result.
#[derive(Default)]
pub(super) struct Notes(Mutex<Vec<String>>);

impl Notes {
    pub(super) fn add(&self, note: String) {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.len() < MAX_NOTES && !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// Takes the notes since the last result.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
