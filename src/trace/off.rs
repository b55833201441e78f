//! Without OpenTelemetry.
#[cfg(feature = "client")]
use tonic::metadata::MetadataMap;

/// The span that calls are made within.
#[cfg(feature = "client")]
#[derive(Clone, Debug, Default)]
pub(crate) struct Parent;

#[cfg(feature = "client")]
impl Parent {
    pub(crate) fn current() -> Self {
        Parent
    }

    pub(crate) fn write(&self, _metadata: &mut MetadataMap) {}
}

/// The span of a hold: the wait for a person.
#[cfg(feature = "client")]
#[derive(Debug)]
pub(crate) struct WaitSpan;

#[cfg(feature = "client")]
impl WaitSpan {
    pub(crate) fn begin(_parent: &Parent, _thread_id: &str, _reason: &str) -> Self {
        WaitSpan
    }

    pub(crate) fn within(&self) -> Parent {
        Parent
    }

    pub(crate) fn fail(&self, _why: &str) {}

    pub(crate) fn end(&self) {}
}

/// The span of a call on the server.
#[cfg(feature = "server")]
pub(crate) struct CallSpan;

#[cfg(feature = "server")]
impl CallSpan {
    pub(crate) fn begin(_wanted: bool, _headers: &http::HeaderMap, _rpc: &'static str) -> Self {
        CallSpan
    }

    pub(crate) fn end(&mut self, _code: i32) {}
}
