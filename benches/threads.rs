//! Thread ids in the form that agents use (a UUID), and back.

/// The id of thread number `number`.
pub(crate) fn id(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012x}")
}

/// The number of a thread.
pub(crate) fn number(id: &[u8]) -> Option<usize> {
    usize::from_str_radix(std::str::from_utf8(id.get(24..)?).ok()?, 16).ok()
}
