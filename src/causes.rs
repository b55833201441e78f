//! The causes of an error: the cause of a failed connection may be an invalid certificate, for example.
use std::error::Error;

/// The causes of an error, from the outermost to the innermost.
pub(crate) fn causes<'e>(error: &'e dyn Error) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(error.source(), |&cause| cause.source())
}

/// The text of an error followed by its causes, each once: a cause is often part of the text.
pub(crate) fn with_causes(text: &str, error: &dyn Error) -> String {
    let mut whole = text.to_owned();
    for cause in causes(error).map(ToString::to_string) {
        if !whole.contains(&cause) {
            whole = if whole.is_empty() { cause } else { format!("{whole}: {cause}") };
        }
    }
    whole
}

/// The causes of an error in words, each once.
pub(crate) fn listed(error: &dyn Error) -> String {
    with_causes("", error)
}
