"""Calls, a watch and a decrement over every transport, with the stubs of grpcio-tools."""

import os
from pathlib import Path

import grpc
from pausewatch.v1 import elicitation_service_pb2 as v1
from pausewatch.v1.elicitation_service_pb2_grpc import ElicitationServiceStub


def use(channel: grpc.Channel) -> None:
    service = ElicitationServiceStub(channel)
    watch = service.WatchPauseState(v1.WatchPauseStateRequest(thread_ids=["python"]), timeout=60)
    states = (event.pause_state for event in watch if event.HasField("pause_state"))
    assert next(states).count == 0
    opened = service.IncrementElicitation(v1.IncrementElicitationRequest(thread_id="python"), timeout=60)
    assert (opened.count, opened.paused) == (1, True), opened
    assert next(states).paused
    closed = service.DecrementElicitation(v1.DecrementElicitationRequest(thread_id="python"), timeout=60)
    assert (closed.count, closed.paused) == (0, False), closed
    assert not next(states).paused
    watch.cancel()


authorities = grpc.ssl_channel_credentials(Path(os.environ["STUBS_CA"]).read_bytes())
for transport, channel in {
    "tcp": grpc.insecure_channel(os.environ["STUBS_TCP"]),
    "tls": grpc.secure_channel(os.environ["STUBS_TLS"], authorities),
    "unix": grpc.insecure_channel(f"unix:{os.environ['STUBS_UNIX']}"),
}.items():
    with channel:
        use(channel)
    print("ok", transport, flush=True)
