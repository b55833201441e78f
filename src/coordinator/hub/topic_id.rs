//! The id of a topic, in as little memory as possible.
use crate::core::types::ThreadId;
use std::borrow::Cow;
use std::hash::BuildHasher;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

/// The id of a thread that is known or watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TopicId {
    /// Shared with everything else that names the thread.
    Shared(ThreadId),
    /// A UUID in its usual text form, as agents use them: 16 bytes in the topic instead of a separate allocation of 56
    /// bytes.
    Packed(Uuid),
}

impl TopicId {
    /// The same id, for a topic that nothing else names.
    pub(super) fn packed(&self) -> Self {
        let TopicId::Shared(thread) = self else { return self.clone() };
        let uuid = Uuid::try_parse(thread.as_str()).ok();
        // Upper case and braces would be lost.
        let uuid = uuid.filter(|&uuid| is_text_of(uuid, thread));
        uuid.map_or_else(|| self.clone(), TopicId::Packed)
    }

    /// The id as everything else names it. Allocates if it is packed.
    pub(super) fn thread(&self) -> Cow<'_, ThreadId> {
        match self {
            TopicId::Shared(thread) => Cow::Borrowed(thread),
            TopicId::Packed(uuid) => {
                let thread = ThreadId::parse("", text(*uuid, &mut buffer()));
                Cow::Owned(thread.expect("the text of a UUID is a valid id"))
            }
        }
    }

    pub(super) fn is(&self, thread: &ThreadId) -> bool {
        match self {
            TopicId::Shared(own) => own == thread,
            TopicId::Packed(uuid) => is_text_of(*uuid, thread),
        }
    }

    /// Both forms of an id have the hash of the [`ThreadId`].
    pub(super) fn hash(&self, hasher: &impl BuildHasher) -> u64 {
        match self {
            TopicId::Shared(thread) => hasher.hash_one(thread),
            TopicId::Packed(uuid) => hasher.hash_one(text(*uuid, &mut buffer())),
        }
    }
}

fn buffer() -> [u8; Hyphenated::LENGTH] {
    [0; Hyphenated::LENGTH]
}

fn text(uuid: Uuid, buffer: &mut [u8; Hyphenated::LENGTH]) -> &str {
    uuid.hyphenated().encode_lower(buffer)
}

fn is_text_of(uuid: Uuid, thread: &ThreadId) -> bool {
    text(uuid, &mut buffer()) == thread.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hashbrown::DefaultHashBuilder;

    fn id(text: &str) -> ThreadId {
        ThreadId::parse("thread_id", text).unwrap()
    }

    #[test]
    fn an_id_comes_back_as_it_was_and_is_found_in_both_forms() {
        let hasher = DefaultHashBuilder::default();
        let uuid = "0a1b2c3d-4e5f-4071-8293-a4b5c6d7e8f9";
        let others =
            ["t".into(), uuid.to_uppercase(), uuid.replace('-', ""), format!("{{{uuid}}}"), format!("urn:uuid:{uuid}")];
        for (text, is_packed) in [(uuid.to_owned(), true)].into_iter().chain(others.map(|other| (other, false))) {
            let (thread, shared) = (id(&text), TopicId::Shared(id(&text)));
            let packed = shared.packed();
            assert_eq!(matches!(packed, TopicId::Packed(_)), is_packed, "{text}");
            for form in [&shared, &packed, &packed.packed()] {
                assert_eq!(form.thread().as_str(), text);
                assert_eq!(form.hash(&hasher), hasher.hash_one(&thread), "{text}");
                assert!(form.is(&thread) && !form.is(&id("0a1b2c3d-4e5f-4071-8293-a4b5c6d7e8f8")), "{text}");
            }
        }
    }
}
