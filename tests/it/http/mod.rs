//! The Connect protocol and the page: what is offered, to whom, and what it costs the others.
mod browsers;
mod calls;
mod client;
mod costs;
mod options;
mod streams;
mod transports;
