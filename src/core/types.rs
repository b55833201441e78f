//! Values that are checked when they are made, so that the rules never check the length of a string.
use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The maximum of open elicitations per thread. Nobody is asked a thousand things at once: more is a runaway tool.
pub(crate) const MAX_OPEN: usize = 1_000;
/// The maximum of `thread_ids` in one watch: 2.6 MB of request.
pub(crate) const MAX_WATCHED: usize = 10_000;
/// The maximum number of values in a request: the ids of a watch, and the other fields. A larger request is refused
/// before it is decoded, which would take far more memory and time than its bytes.
pub(crate) const MAX_VALUES: usize = MAX_WATCHED + 100;
/// The maximum of ids in one request of a `Watch`: 260 kB of request.
pub(crate) const MAX_CHANGED: usize = 1_000;
/// The shortest lease: a renewal every third of it must survive a busy machine and a slow link.
pub const MIN_TTL: Duration = Duration::from_secs(1);
/// The longest lease: a forgotten one must end within a day.
pub const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// A field that is out of its limits. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {was}; allowed: {allowed}")]
pub struct InvalidField {
    /// The field's path in the request, as AIP-193 and `google.rpc.BadRequest` write it.
    pub field: String,
    /// The value, without long or unprintable input.
    pub was: String,
    /// The allowed values.
    pub allowed: &'static str,
}

impl InvalidField {
    /// A field, what it was and what it may be.
    pub fn new(field: impl Into<String>, was: impl Into<String>, allowed: &'static str) -> Self {
        InvalidField { field: field.into(), was: was.into(), allowed }
    }

    /// A request of more than [`MAX_VALUES`].
    pub(crate) fn too_many_values() -> Self {
        InvalidField::new("request", "one of more than 10,100 values", "at most 10,000 ids, and the other fields")
    }
}

/// Names a thread: 1 to 256 bytes of UTF-8 without control characters. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(Arc<str>);

impl ThreadId {
    const ALLOWED: &str = "1 to 256 bytes of UTF-8 without control characters";

    /// Parses the field called `field`.
    ///
    /// # Errors
    /// The field is empty, longer than 256 bytes, or has a control character (Unicode Cc).
    pub fn parse(field: &str, text: &str) -> Result<Self, InvalidField> {
        let was = match text {
            "" => "empty".to_owned(),
            text if text.len() > 256 => format!("{} bytes long", text.len()),
            // Most ids are ASCII, which is checked much faster.
            text if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) => return Ok(ThreadId(text.into())),
            text => match text.char_indices().find(|(_, c)| c.is_control()) {
                Some((at, c)) => format!("a text with the control character U+{:04X} at byte {at}", u32::from(c)),
                None => return Ok(ThreadId(text.into())),
            },
        };
        Err(InvalidField::new(field, was, Self::ALLOWED))
    }

    /// The text of the id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for ThreadId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Names an elicitation: 128 random bits given by the server, 32 lower-case hexadecimal digits as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ElicitationId(pub u128);

impl ElicitationId {
    /// Parses an id in the form in which the server returns it; `None`: the text has another form.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        digits.then(|| u128::from_str_radix(text, 16).ok().map(ElicitationId)).flatten()
    }
}

impl fmt::Display for ElicitationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 32];
        for (i, byte) in self.0.to_be_bytes().into_iter().enumerate() {
            text[2 * i] = DIGITS[usize::from(byte >> 4)];
            text[2 * i + 1] = DIGITS[usize::from(byte & 15)];
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

/// The length of a lease: 1 s to 24 h.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ttl(Duration);

impl Ttl {
    const ALLOWED: &str = "1 s to 24 h";

    /// A lease of this length.
    ///
    /// # Errors
    /// It is shorter than 1 s or longer than 24 h.
    pub fn new(field: &str, length: Duration) -> Result<Self, InvalidField> {
        match (MIN_TTL..=MAX_TTL).contains(&length) {
            true => Ok(Ttl(length)),
            false => Err(InvalidField::new(field, format!("{length:?}"), Self::ALLOWED)),
        }
    }

    /// A lease of a length as protobuf carries it, whose fields have a sign.
    ///
    /// # Errors
    /// It is no valid `google.protobuf.Duration`, shorter than 1 s or longer than 24 h.
    pub fn from_parts(field: &str, seconds: i64, nanos: i32) -> Result<Self, InvalidField> {
        let length = match (u64::try_from(seconds), u32::try_from(nanos)) {
            (Ok(seconds), Ok(nanos)) if nanos < 1_000_000_000 => {
                Duration::from_secs(seconds).checked_add(Duration::from_nanos(nanos.into()))
            }
            _ => None,
        };
        let invalid = || InvalidField::new(field, format!("{seconds} s and {nanos} ns"), Self::ALLOWED);
        Self::new(field, length.ok_or_else(invalid)?)
    }

    /// The length.
    pub fn get(self) -> Duration {
        self.0
    }
}

/// Parses a text of at most `max` bytes. `allowed`: the same limit as the text of the error.
///
/// # Errors
/// It is longer.
pub(crate) fn text(field: &str, text: String, max: usize, allowed: &'static str) -> Result<Box<str>, InvalidField> {
    match text.len() <= max {
        true => Ok(text.into_boxed_str()),
        false => Err(InvalidField::new(field, format!("{} bytes long", text.len()), allowed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_id_has_1_to_256_bytes() {
        assert!(ThreadId::parse("thread_id", "a").is_ok());
        assert!(ThreadId::parse("thread_id", &"a".repeat(256)).is_ok());
        assert_eq!(ThreadId::parse("thread_id", "").unwrap_err().was, "empty");
        assert_eq!(ThreadId::parse("thread_id", &"a".repeat(257)).unwrap_err().was, "257 bytes long");
        assert_eq!(ThreadId::parse("thread_id", &"ä".repeat(129)).unwrap_err().was, "258 bytes long");
    }

    #[test]
    fn a_thread_id_has_no_control_characters() {
        assert!(ThreadId::parse("thread_id", "a b/ü\u{200b}").is_ok());
        for bad in ["a\nb", "\u{0}", "a\u{7f}", "\u{85}"] {
            assert!(ThreadId::parse("thread_id", bad).unwrap_err().was.contains("control character"), "{bad:?}");
        }
    }

    #[test]
    fn a_thread_id_is_reported_unchanged() {
        let id = ThreadId::parse("thread_id", "a \"b\"").expect("a valid id");
        assert_eq!((id.as_str(), id.borrow() as &str, id.to_string().as_str()), ("a \"b\"", "a \"b\"", "a \"b\""));
        assert_eq!(format!("{id:?}"), r#""a \"b\"""#);
    }

    #[test]
    fn a_text_has_so_many_bytes_at_most() {
        let of = |value: &str| text("reason", value.to_owned(), 4, "up to 4 bytes");
        assert_eq!(of("").as_deref(), Ok(""));
        assert_eq!(of("ää").as_deref(), Ok("ää"));
        assert_eq!(of("ääx").map_err(|error| error.was), Err("5 bytes long".to_owned()));
    }

    #[test]
    fn an_elicitation_id_reads_back_as_it_was_written() {
        for id in [0, 1, u128::MAX, 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef] {
            let text = ElicitationId(id).to_string();
            assert_eq!(text.len(), 32);
            assert_eq!(ElicitationId::parse(&text), Some(ElicitationId(id)));
        }
        for foreign in ["", "1", "+0000000000000000000000000000001", "ABCDEF0123456789ABCDEF0123456789"] {
            assert_eq!(ElicitationId::parse(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn a_ttl_is_1_s_to_24_h() {
        let ttl = |s, n| Ttl::from_parts("ttl", s, n);
        assert!(ttl(1, 0).is_ok());
        assert!(ttl(86_400, 0).is_ok());
        for (s, n) in [
            (0, 0),
            (0, 999_999_999),
            (86_400, 1),
            (-1, 0),
            (5, -1),
            (5, 1_000_000_000),
            (i64::MAX, 0),
            (i64::MIN, i32::MIN),
        ] {
            assert!(ttl(s, n).is_err(), "{s} {n}");
        }
    }
}
