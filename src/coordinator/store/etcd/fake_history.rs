//! The data of a model of an etcd cluster: one history of revisions, for the tests here and the simulation of a fleet.
use super::wire::{
    Compare, Expected, KeyValue, Operation, Outcome, RangeRequest, RangeResponse, RequestOp, ResponseHeader,
    ResponseOp, TxnRequest, TxnResponse,
};
use std::collections::{BTreeMap, BTreeSet};

/// The values of a key, by the revision that wrote them; `None`: deleted.
pub(super) type Versions = Vec<(i64, Option<Vec<u8>>)>;
/// The keys of one revision, with their values.
pub(super) type Written = Vec<(Vec<u8>, Vec<u8>)>;

#[derive(Default)]
pub(super) struct History {
    pub(super) revision: i64,
    /// Earlier revisions are forgotten.
    pub(super) compacted: i64,
    pub(super) keys: BTreeMap<Vec<u8>, Versions>,
    /// The keys with more than one version: a compaction has to look only at these.
    pub(super) changed: BTreeSet<Vec<u8>>,
    pub(super) written: BTreeMap<i64, Written>,
}

impl History {
    pub(super) fn value(&self, key: &[u8]) -> Option<(i64, &Vec<u8>)> {
        let (revision, value) = self.keys.get(key)?.last()?;
        Some((*revision, value.as_ref()?))
    }

    fn holds(&self, key: &[u8], expected: Option<&Expected>) -> bool {
        let found = self.value(key);
        match expected {
            Some(Expected::ModRevision(revision)) => found.map_or(0, |(at, _)| at) == *revision,
            Some(Expected::Value(value)) => found.is_some_and(|(_, found)| found == value),
            None => false,
        }
    }

    pub(super) fn read(&self, range: &RangeRequest) -> RangeResponse {
        let at = if range.revision > 0 { range.revision } else { self.revision };
        let of = |(key, versions): (&Vec<u8>, &Versions)| {
            let (revision, value) = versions.iter().rev().find(|(revision, _)| *revision <= at)?;
            Some(KeyValue { key: key.clone(), mod_revision: *revision, value: value.clone()? })
        };
        let limit = if range.limit > 0 { range.limit as usize } else { usize::MAX };
        let mut kvs: Vec<_> = match range.range_end.is_empty() {
            true => self.keys.get_key_value(&range.key).and_then(of).into_iter().collect(),
            false => {
                let within = self.keys.range(range.key.clone()..range.range_end.clone());
                within.filter_map(of).take(limit.saturating_add(1)).collect()
            }
        };
        let more = kvs.len() > limit;
        kvs.truncate(limit);
        RangeResponse {
            header: Some(ResponseHeader { revision: self.revision, ..ResponseHeader::default() }),
            kvs,
            more,
        }
    }

    /// Makes a transaction. `compares`: evaluates the conditions, as etcd does; otherwise all of them count as true.
    pub(super) fn make(&mut self, txn: &TxnRequest, compares: bool) -> TxnResponse {
        let holds = |compare: &Compare| self.holds(&compare.key, compare.expected.as_ref());
        let succeeded = !compares || txn.compare.iter().all(holds);
        let operations = if succeeded { &txn.success } else { &txn.failure };
        assert!(operations.len() <= 128, "etcd refuses so many operations");
        let writes = operations.iter().any(|op| !matches!(op.operation, Some(Operation::Range(_))));
        self.revision += i64::from(writes);
        let mut put = BTreeSet::new();
        let responses = operations.iter().map(|op| ResponseOp { outcome: self.operate(op, &mut put) }).collect();
        TxnResponse {
            header: Some(ResponseHeader { revision: self.revision, ..ResponseHeader::default() }),
            succeeded,
            responses,
        }
    }

    fn operate(&mut self, op: &RequestOp, put: &mut BTreeSet<Vec<u8>>) -> Option<Outcome> {
        match op.operation.as_ref().expect("an operation") {
            Operation::Range(range) => return Some(Outcome::Range(self.read(range))),
            Operation::Put(written) => {
                assert!(put.insert(written.key.clone()), "etcd refuses a key twice");
                let versions = self.keys.entry(written.key.clone()).or_default();
                versions.push((self.revision, Some(written.value.clone())));
                if versions.len() > 1 {
                    self.changed.insert(written.key.clone());
                }
                let pair = (written.key.clone(), written.value.clone());
                self.written.entry(self.revision).or_default().push(pair);
            }
            Operation::Delete(delete) => {
                let revision = self.revision;
                let end = if delete.range_end.is_empty() {
                    [&delete.key[..], &[0]].concat()
                } else {
                    delete.range_end.clone()
                };
                for (key, versions) in self.keys.range_mut(delete.key.clone()..end) {
                    if versions.last().is_some_and(|(_, value)| value.is_some()) {
                        versions.push((revision, None));
                        self.changed.insert(key.clone());
                    }
                }
            }
        }
        None
    }

    pub(super) fn compact(&mut self, revision: i64) {
        self.compacted = self.compacted.max(revision);
        self.written = self.written.split_off(&revision);
        let History { keys, changed, .. } = self;
        changed.retain(|key| {
            let versions = keys.get_mut(key).expect("it has changed");
            let last = versions.iter().rposition(|(at, _)| *at <= revision).unwrap_or(0);
            versions.drain(..last);
            match &versions[..] {
                [(_, None)] => {
                    keys.remove(key);
                    false
                }
                versions => versions.len() > 1,
            }
        });
    }

    /// What was written to the keys of `range` from the revision `from` on; `None`: some of it is forgotten.
    pub(super) fn written_from(&self, range: &RangeRequest, from: i64) -> Option<Vec<KeyValue>> {
        if self.compacted > from {
            return None;
        }
        let revisions = self.written.range(from..);
        let pairs = revisions.flat_map(|(revision, pairs)| pairs.iter().map(move |pair| (*revision, pair)));
        let wanted = pairs.filter(|(_, (key, _))| (&range.key..&range.range_end).contains(&key));
        let found = wanted.map(|(mod_revision, (key, value))| KeyValue {
            key: key.clone(),
            mod_revision,
            value: value.clone(),
        });
        Some(found.collect())
    }
}
