//! The disk of the server: the one in memory that the store's own tests use.
#[allow(dead_code)] // Those tests use more of it.
#[path = "../it/support/disk.rs"]
mod fake;
#[allow(dead_code)]
#[path = "../it/support/random.rs"]
mod random;

pub(crate) use fake::FakeDisk;
use random::Random;
