//! The documentation, held against the program: the API reference says what the proto says.
#![allow(clippy::unwrap_used)] // The lint's own exception for tests does not see what tests share.
#![cfg(unix)]
mod api_reference;
