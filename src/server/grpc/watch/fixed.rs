//! `WatchPauseState`: one request, whose threads stay the same.
use super::super::codec::RequestCodec;
use super::super::frame::{Batch, BatchSize};
use super::stream::Stream;
use crate::proto::v1;
use crate::server::status;
use bytes::Bytes;
use http_body::Frame;
use std::pin::Pin;
use std::task::{Context, Poll};
use tonic::Status;
use tonic::body::Body;
use tonic::codec::{Codec, Streaming};
use tonic::codegen::http;

/// The largest request: 10,000 ids of 256 bytes, with their tags and lengths.
pub(crate) const MAX_REQUEST: usize = 3 << 20;

/// The one message of the request.
pub(super) async fn read(request: http::Request<Body>) -> Result<v1::WatchPauseStateRequest, Status> {
    let decoder = RequestCodec::<(), v1::WatchPauseStateRequest>::default().decoder();
    let mut messages = Streaming::new_request(decoder, request.into_body(), None, Some(MAX_REQUEST));
    messages.message().await?.ok_or_else(|| Status::invalid_argument("the call has no request message"))
}

/// The messages of a watch whose threads stay the same.
pub(super) struct Fixed(pub(super) Stream);

impl http_body::Body for Fixed {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let stream = &mut self.get_mut().0;
        if let Poll::Ready(end) = stream.poll_end(cx) {
            return Poll::Ready(end);
        }
        loop {
            let Some(subscription) = &stream.subscription else { return Poll::Ready(None) };
            let show = stream.show(subscription.hub());
            let Some(subscription) = &mut stream.subscription else { return Poll::Ready(None) };
            let mut batch = Batch::new(show, stream.batch_size);
            match subscription.poll_next(cx, &mut batch) {
                Poll::Pending => {
                    stream.batch_size = BatchSize::FIRST;
                    return Poll::Pending;
                }
                Poll::Ready(true) => match batch.finish() {
                    // All due threads were forgotten meanwhile.
                    empty if empty.is_empty() => {}
                    bytes => return Poll::Ready(stream.send(bytes)),
                },
                Poll::Ready(false) => return Poll::Ready(stream.end_with(&status::draining())),
            }
        }
    }
}
