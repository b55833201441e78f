//! The rows of a backup, read to its end and checked before anything is written.
use super::OpenError;
use super::contents::RecordBuilder;
use super::embedded::{Summary, read_backup};
use super::ops::{self, Changes};
use super::rows::RowCodec;
use std::io::{self, Read};

/// A backup that was read to its end.
pub(super) struct BackupContent {
    pub(super) summary: Summary,
    parts: Vec<Vec<u8>>,
}

impl BackupContent {
    /// # Errors
    /// It is not a backup, or it is incomplete, damaged or of a later version.
    pub(super) fn read(backup: &mut dyn Read) -> Result<Self, OpenError> {
        let mut parts = Vec::new();
        let read = read_backup(backup, &mut io::sink(), |rows| {
            parts.push(rows);
            Ok(())
        });
        match read {
            Ok(summary) => Ok(BackupContent { summary, parts }),
            Err(error) => Err(OpenError::Corrupt(format!("{error}. Nothing was changed"))),
        }
    }

    /// # Errors
    /// A part is invalid.
    pub(super) fn rows(&self) -> Result<Changes<'_>, OpenError> {
        ops::decode(self.parts.iter().map(Vec::as_slice)).ok_or_else(|| invalid("a part of it cannot be read"))
    }

    /// Checks that a server could start from `rows`, which are those of the backup or derived from them.
    ///
    /// # Errors
    /// It could not.
    pub(super) fn check(&self, rows: &Changes<'_>, codec: RowCodec) -> Result<(), OpenError> {
        let threads = usize::try_from(self.summary.threads).unwrap_or(0);
        let mut records = RecordBuilder::new(codec, threads);
        for ((table, key), value) in rows {
            let value = value.ok_or_else(|| invalid("it has a row that was deleted"))?;
            records.add(*table, key, value).map_err(|error| invalid(&error.to_string()))?;
        }
        records.finish().map(|_| ()).map_err(|error| invalid(&error.to_string()))
    }
}

pub(super) fn invalid(why: &str) -> OpenError {
    OpenError::Corrupt(format!("the backup is invalid: {why}. Use another one. Nothing was changed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::store::embedded::{BackupWriter, restore};
    use crate::coordinator::store::{Write, ops};
    use crate::core::types::ThreadId;
    use crate::core::{Header, Pause, Timestamp};

    const NOW: Timestamp = Timestamp { boot: 1_000, wall: 2_000 };

    #[test]
    fn a_backup_with_contradictory_rows_is_refused_before_a_store_is_made() {
        let thread = ThreadId::parse("", "t").expect("valid");
        // Paused, but without an elicitation.
        let header = Header { revision: 1, pause: Pause { since: Some(NOW), ..Pause::default() }, changed: NOW };
        let (mut batch, mut backup) = (Vec::new(), Vec::new());
        ops::encode(&[Write::PutThread(&thread, &header)], 1, &mut batch);
        let rows = ops::decode([&batch[..]]).expect("a batch");
        let mut writer = BackupWriter::begin(3, &mut backup).expect("memory takes it");
        for ((table, key), value) in &rows {
            writer.put(*table, key, value.expect("no deletions")).expect("memory takes it");
        }
        writer.end().expect("memory takes it");

        let parent = tempfile::tempdir().expect("a directory");
        let directory = parent.path().join("store");
        let refused = restore(&mut &backup[..], &directory, false, 1, NOW).expect_err("it is invalid");
        let (text, OpenError::Corrupt(_)) = (refused.to_string(), &refused) else { panic!("{refused:?}") };
        assert!(text.starts_with("the backup is invalid: ") && text.ends_with(". Nothing was changed"), "{text}");
        assert!(!directory.exists());
    }
}
