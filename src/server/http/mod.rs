//! The Connect protocol (connectrpc.com/docs/protocol) and a page, on the same port as gRPC: HTTP/1.1 or HTTP/2, JSON
//! or bytes.
//!
//! ```text
//! rewind, http1, linger              detecting, serving and closing connections of HTTP/1
//! layer                              the layer in front of the services: passes, converts or refuses requests
//! browser                            which requests a browser may make
//! protocol, query                    the form of a request
//! request, json, methods             its body as gRPC, and the descriptors that this needs
//! unary, stream, pace                the answer, and its speed
//! envelope, events, error            the format of the answer
//! page                               the files at `/`
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
mod turns;
mod unary;

pub(crate) use browser::Browsers;
pub(crate) use http1::{IDLE_TIMEOUT, Transport, serve as serve_http1};
pub(crate) use layer::{Http, HttpContext};
pub(crate) use methods::{MaxRequest, Methods};
pub(crate) use page::{Page, paths};
pub(crate) use rewind::{Rewound, begins_with_preface};
