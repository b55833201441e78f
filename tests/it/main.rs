//! The tests that run real processes and real servers: one binary, so that it is linked once.
mod run_job_control;
mod run_vs_timeout;
mod shell;
