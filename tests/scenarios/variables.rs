//! The values of a case: saved values, and times of marks.
use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, HashMap},
    time::Instant,
};

#[derive(Default)]
pub(crate) struct Variables {
    saved: HashMap<String, Value>,
    marks: HashMap<String, Instant>,
}

impl Variables {
    pub(crate) fn set(&mut self, name: &str, value: Value) {
        self.saved.insert(name.to_owned(), value);
    }

    /// Saves parts of an answer, each by its path.
    pub(crate) fn save(&mut self, paths: &BTreeMap<String, String>, answer: &Value) -> Result<(), String> {
        for (name, path) in paths {
            let found = path.split('.').try_fold(answer, |value, key| match value {
                Value::Array(list) => list.get(key.parse::<usize>().ok()?),
                other => other.get(key),
            });
            let value = found.ok_or_else(|| format!("there is no {path} to save in {answer}"))?;
            self.set(name, value.clone());
        }
        Ok(())
    }

    /// Replaces every `"$name"` in `value` by the saved value.
    pub(crate) fn put_into(&self, value: &Value) -> Result<Value, String> {
        Ok(match value {
            Value::String(text) => match text.strip_prefix('$') {
                Some(name) => self.saved.get(name).cloned().ok_or_else(|| format!("nothing was saved as {name:?}"))?,
                None => value.clone(),
            },
            Value::Array(list) => list.iter().map(|value| self.put_into(value)).collect::<Result<_, _>>()?,
            Value::Object(fields) => Value::Object(self.put_into_all(fields)?),
            _ => value.clone(),
        })
    }

    pub(crate) fn put_into_all(&self, fields: &Map<String, Value>) -> Result<Map<String, Value>, String> {
        fields.iter().map(|(key, value)| Ok((key.clone(), self.put_into(value)?))).collect()
    }

    pub(crate) fn mark(&mut self, name: &str, at: Instant) {
        self.marks.insert(name.to_owned(), at);
    }

    /// The milliseconds from a mark to `at`; negative if `at` is earlier.
    pub(crate) fn since(&self, mark: &str, at: Instant) -> Result<f64, String> {
        let mark = self.marks.get(mark).ok_or_else(|| format!("no moment was marked as {mark:?}"))?;
        let after = at.saturating_duration_since(*mark).as_secs_f64();
        Ok((after - mark.saturating_duration_since(at).as_secs_f64()) * 1e3)
    }
}

/// Replaces `#` in a text by the number of the repetition.
pub(crate) fn number(fields: &Map<String, Value>, repetition: usize) -> Map<String, Value> {
    let numbered = |value: &Value| match value {
        Value::String(text) => text.replace('#', &repetition.to_string()).into(),
        other => other.clone(),
    };
    fields.iter().map(|(key, value)| (key.clone(), numbered(value))).collect()
}
