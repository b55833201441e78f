//! The Connect protocol and the page: what they offer, who may use them, and what they cost other clients.
mod browsers;
mod calls;
mod client;
mod costs;
mod options;
mod streams;
mod transports;
