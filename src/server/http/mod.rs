//! The Connect protocol (connectrpc.com/docs/protocol) and a page, beside gRPC on the same port: HTTP/1.1 or HTTP/2, JSON or
//! bytes.
//!
//! ```text
//! rewind, http1         which connections are HTTP/1, and how they are served; linger: how they are closed
//! layer                 the layer before the services: what passes, what becomes gRPC, what is refused
//! browser               which requests a browser may make
//! protocol, query       what form a request has
//! request, json         its body as gRPC has it; methods: the descriptors that this needs
//! unary, stream, pace   the answer, and how fast; envelope, events, error: how it is written
//! page                  the files at `/`
//! ```
mod browser;
mod envelope;
mod error;
mod events;
mod http1;
mod json;
mod layer;
mod linger;
mod methods;
mod pace;
mod page;
mod protocol;
mod query;
mod request;
mod rewind;
mod stream;
mod unary;

pub(crate) use browser::Browsers;
pub(crate) use http1::{IDLE_TIMEOUT, Transport, serve as serve_http1};
pub(crate) use layer::{Http, HttpContext};
pub(crate) use methods::{MaxRequest, Methods};
pub(crate) use page::{Page, paths};
pub(crate) use rewind::{Rewound, begins_with_preface};
