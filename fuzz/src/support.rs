//! The modules that the targets share with the integration tests.
#[path = "../../tests/it/support/disk.rs"]mod disk;
#[path = "../../tests/it/support/model.rs"]mod model;
