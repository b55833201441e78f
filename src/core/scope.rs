//! A set of threads, given by their ids and by prefixes of ids.
use super::types::{InvalidField, ThreadId};
use std::sync::Arc;

/// Some threads, or all. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Sorted by text, none contained in another; `None`: every thread.
    areas: Option<Arc<[Area]>>,
}

/// One thread, or all threads whose ids begin with a prefix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Area {
    text: Box<str>,
    is_prefix: bool,
}

impl Scope {
    /// Every thread.
    pub const ALL: Self = Scope { areas: None };

    /// The threads `ids`, and those whose ids begin with one of `prefixes`. An empty prefix covers all threads.
    ///
    /// # Errors
    /// One of `ids` is not a valid id, or no valid id can begin with one of `prefixes`.
    pub fn of(ids: &[String], prefixes: &[String]) -> Result<Self, InvalidField> {
        let id = |(i, id): (usize, &String)| parsed(&format!("threads[{i}]"), id, false);
        let prefix = |(i, prefix): (usize, &String)| parsed(&format!("prefixes[{i}]"), prefix, true);
        if prefixes.iter().any(String::is_empty) {
            return Ok(Self::ALL);
        }
        let areas = ids.iter().enumerate().map(id).chain(prefixes.iter().enumerate().map(prefix));
        let mut areas = areas.collect::<Result<Vec<_>, _>>()?;
        // With equal texts, the prefix comes first: it contains the other one.
        areas.sort_by(|a, b| a.text.cmp(&b.text).then(b.is_prefix.cmp(&a.is_prefix)));
        // An area within another one follows it directly, so the last kept area would contain it.
        areas.dedup_by(|area, kept| kept.contains(&area.text));
        Ok(Scope { areas: Some(areas.into()) })
    }

    /// The thread alone.
    pub fn one(thread: &ThreadId) -> Self {
        Scope { areas: Some(Arc::new([Area { text: thread.as_str().into(), is_prefix: false }])) }
    }

    /// Whether the thread is among them.
    pub fn contains(&self, thread: &ThreadId) -> bool {
        let Some(areas) = &self.areas else { return true };
        // The area that contains the thread is the last one that does not sort after it: areas in between would be
        // inside it.
        let behind = areas.partition_point(|area| &*area.text <= thread.as_str());
        behind.checked_sub(1).is_some_and(|last| areas[last].contains(thread.as_str()))
    }

    /// The areas in their order; `None`: every thread.
    pub fn areas(&self) -> Option<&[Area]> {
        self.areas.as_deref()
    }

    /// The threads in the order of their ids, if they are named one by one.
    pub fn threads(&self) -> Option<Vec<ThreadId>> {
        // An area without prefix has the text of an id.
        let thread = |area: &Area| (!area.is_prefix).then(|| ThreadId::parse("", &area.text).ok()).flatten();
        self.areas()?.iter().map(thread).collect()
    }
}

impl Area {
    /// The id or the prefix. No id in the area sorts before it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it is all threads whose ids begin with its text.
    pub fn is_prefix(&self) -> bool {
        self.is_prefix
    }

    /// Whether the thread with this id is in it.
    pub fn contains(&self, id: &str) -> bool {
        if self.is_prefix { id.starts_with(&*self.text) } else { id == &*self.text }
    }
}

fn parsed(field: &str, text: &str, is_prefix: bool) -> Result<Area, InvalidField> {
    // The beginning of an id is itself an id: no longer, and of the same characters.
    ThreadId::parse(field, text)?;
    Ok(Area { text: text.into(), is_prefix })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(ids: &[&str], prefixes: &[&str]) -> Scope {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        Scope::of(&owned(ids), &owned(prefixes)).unwrap()
    }

    /// Against the plain meaning, over all short ids.
    #[test]
    fn a_thread_is_in_it_by_its_id_or_its_beginning() {
        let texts: Vec<String> = (1..4)
            .flat_map(|length| {
                (0..3_usize.pow(length)).map(move |mut number| {
                    let letter = |_| {
                        let letter = b"ab/"[number % 3] as char;
                        number /= 3;
                        letter
                    };
                    (0..length).map(letter).collect::<String>()
                })
            })
            .collect();
        let sets: [(&[&str], &[&str]); 7] = [
            (&[], &[]),
            (&["a"], &[]),
            (&["b", "ab", "a"], &[]),
            (&[], &["a"]),
            (&["a", "b"], &["a/", "ab", "a/b"]),
            (&["ab", "a", "b/"], &["a", "aa", "b/"]),
            (&["a"], &[""]),
        ];
        for (ids, prefixes) in sets {
            let scope = scope(ids, prefixes);
            for text in &texts {
                let is_in = ids.contains(&text.as_str()) || prefixes.iter().any(|prefix| text.starts_with(prefix));
                let thread = ThreadId::parse("", text).unwrap();
                assert_eq!(scope.contains(&thread), is_in, "{text} in {ids:?} {prefixes:?}");
                let areas = scope.areas().map(|areas| areas.iter().filter(|area| area.contains(text)).count());
                assert_eq!(areas.unwrap_or(1), usize::from(is_in), "in one area: {text} in {ids:?} {prefixes:?}");
            }
        }
    }

    #[test]
    fn invalid_ids_are_named() {
        let wrong = Scope::of(&["a".into(), "b\n".into()], &[]).unwrap_err();
        assert_eq!(wrong.field, "threads[1]");
        assert_eq!(Scope::of(&[], &["a".repeat(257)]).unwrap_err().field, "prefixes[0]");
        assert_eq!(Scope::of(&["".into()], &[]).unwrap_err().field, "threads[0]");
    }

    #[test]
    fn thread_ids_are_listed_without_prefixes() {
        let of = |ids: &[&str]| ids.iter().map(|id| ThreadId::parse("", id).unwrap()).collect::<Vec<_>>();
        assert_eq!(scope(&["b", "a", "a"], &[]).threads(), Some(of(&["a", "b"])));
        assert_eq!(scope(&["b"], &["a"]).threads(), None);
        assert_eq!(Scope::ALL.threads(), None);
    }
}
