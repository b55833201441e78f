//! What the targets share with the integration tests.
#[path = "../../tests/it/support/disk.rs"]
pub(crate) mod disk;
#[path = "../../tests/it/support/model.rs"]
pub(crate) mod model;
#[path = "../../tests/it/support/random.rs"]
mod random;

pub(crate) use random::Random;
