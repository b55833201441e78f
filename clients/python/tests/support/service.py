"""A coordinator in this process, for what the real one cannot show: TLS, tokens, and answers of the test's choice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Self

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import error_details_pb2, status_pb2

from pausewatch.v1 import elicitation_service_pb2 as pb
from pausewatch.v1 import elicitation_service_pb2_grpc as pb_grpc

if TYPE_CHECKING:
    from collections.abc import Iterator


def limit_trailers(limit: str, retry: error_details_pb2.RetryInfo | None = None) -> list[tuple[str, str | bytes]]:
    """What comes with the refusal of a call beyond that limit."""
    info = error_details_pb2.ErrorInfo(
        reason="LIMIT_EXCEEDED", domain="pausewatch", metadata={"limit": limit, "was": "2", "allowed": "1"}
    )
    details = []
    for message in (info, retry):
        if message is not None:
            details.append(AnyMessage())
            details[-1].Pack(message)
    return [("grpc-status-details-bin", status_pb2.Status(details=details).SerializeToString())]


class Service(pb_grpc.ElicitationServiceServicer):
    """Answers with empty threads, and keeps the metadata of every call.

    `refusals` are the trailers of the next increments that are refused, the next one last. The next `unavailable_decrements`
    decrements fail.
    """

    def __init__(self) -> None:
        self.metadata: list[dict[str, str | bytes]] = []
        self.request_ids: list[str] = []
        self.refusals: list[list[tuple[str, str | bytes]]] = []
        self.decrement_ids: list[str] = []
        self.unavailable_decrements = 0

    def GetPauseState(self, request: pb.GetPauseStateRequest, context: Any) -> pb.GetPauseStateResponse:
        self._called(context)
        return pb.GetPauseStateResponse(pause_state=pb.PauseState(thread_id=request.thread_id))

    def IncrementElicitation(self, request: pb.IncrementElicitationRequest, context: Any) -> Any:
        self._called(context)
        self.request_ids.append(request.request_id)
        if self.refusals:
            context.set_trailing_metadata(self.refusals.pop())
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too much")
        elicitation = pb.Elicitation(elicitation_id="e", thread_id=request.thread_id)
        return pb.IncrementElicitationResponse(count=1, paused=True, elicitation=elicitation)

    def DecrementElicitation(self, request: pb.DecrementElicitationRequest, context: Any) -> Any:
        self._called(context)
        self.decrement_ids.append(request.request_id)
        if self.unavailable_decrements:
            self.unavailable_decrements -= 1
            context.abort(grpc.StatusCode.UNAVAILABLE, "draining")
        return pb.DecrementElicitationResponse()

    def RenewElicitation(self, request: pb.RenewElicitationRequest, context: Any) -> pb.RenewElicitationResponse:
        self._called(context)
        return pb.RenewElicitationResponse(elicitation=pb.Elicitation(elicitation_id=request.elicitation_id))

    def ListPauseStates(self, _: pb.ListPauseStatesRequest, context: Any) -> pb.ListPauseStatesResponse:
        self._called(context)
        return pb.ListPauseStatesResponse()

    def ListPauses(self, _: pb.ListPausesRequest, context: Any) -> pb.ListPausesResponse:
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "no test needs it")
        return pb.ListPausesResponse()

    def WatchPauseState(self, request: pb.WatchPauseStateRequest, context: Any) -> Iterator[pb.WatchPauseStateResponse]:
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "the library does not use it")
        yield from ()

    def Watch(self, request_iterator: Iterator[pb.WatchRequest], context: Any) -> Iterator[pb.WatchResponse]:
        self._called(context)
        for number, request in enumerate(request_iterator, 1):
            for thread_id in request.add:
                yield pb.WatchResponse(pause_state=pb.PauseState(thread_id=thread_id))
            if request.confirm:
                states = [pb.PauseState(thread_id=thread_id) for thread_id in request.confirm]
                yield pb.WatchResponse(confirmation=pb.Confirmation(pause_states=states))
            yield pb.WatchResponse(snapshot_complete=pb.SnapshotComplete(requests=number))

    def _called(self, context: Any) -> None:
        self.metadata.append({datum.key: datum.value for datum in context.invocation_metadata()})


class Serving:
    """Serves on loopback until the end of its block; `credentials` None: in plain text."""

    def __init__(self, credentials: grpc.ServerCredentials | None = None) -> None:
        self.service = Service()
        self._server = grpc.server(ThreadPoolExecutor(8))
        pb_grpc.add_ElicitationServiceServicer_to_server(self.service, self._server)
        if credentials is None:
            self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        else:
            self.address = f"https://localhost:{self._server.add_secure_port('127.0.0.1:0', credentials)}"

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None).wait()
