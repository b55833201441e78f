//! The causes of an error: that of a failed connection, for example, may be a certificate.
use std::error::Error;

/// The causes of an error, from the outermost to the innermost.
pub(crate) fn causes<'e>(error: &'e dyn Error) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(error.source(), |&cause| cause.source())
}

/// The text and the causes of an error, each once: a cause is often part of the text that is around it.
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
