"""Measures GetPauseState by the bare stub and by the client, call by call in turns. PAUSEWATCH_ADDRESS: a server that runs."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import time

import grpc

import pausewatch as pw
from pausewatch.v1 import elicitation_service_pb2 as pb
from pausewatch.v1 import elicitation_service_pb2_grpc as pb_grpc

_CALLS = 3_000
_WARM_UP = 200
_REQUEST = pb.GetPauseStateRequest(thread_id="bench")


class Times:
    """Microseconds of the calls after the warm-up."""

    def __init__(self) -> None:
        self.bare: list[float] = []
        self.whole: list[float] = []

    def add(self, began: int, between: int, ended: int) -> None:
        self.bare.append((between - began) / 1_000)
        self.whole.append((ended - between) / 1_000)

    def report(self, client: str) -> None:
        stub, whole = (round(statistics.median(times[_WARM_UP:]), 1) for times in (self.bare, self.whole))
        print(json.dumps({"client": client, "calls": _CALLS, "stub_us": stub, "client_us": whole}), flush=True)


def threads(address: str) -> None:
    times = Times()
    with grpc.insecure_channel(address) as channel, pw.Client.from_env(address=address) as client:
        stub = pb_grpc.ElicitationServiceStub(channel)
        for _ in range(_WARM_UP + _CALLS):
            began = time.perf_counter_ns()
            stub.GetPauseState(_REQUEST, timeout=5)
            between = time.perf_counter_ns()
            client.get_pause_state("bench")
            times.add(began, between, time.perf_counter_ns())
    times.report("python")


async def tasks(address: str) -> None:
    times = Times()
    async with grpc.aio.insecure_channel(address) as channel, pw.AsyncClient.from_env(address=address) as client:
        stub: pb_grpc.ElicitationServiceAsyncStub = pb_grpc.ElicitationServiceStub(channel)
        for _ in range(_WARM_UP + _CALLS):
            began = time.perf_counter_ns()
            await stub.GetPauseState(_REQUEST, timeout=5)
            between = time.perf_counter_ns()
            await client.get_pause_state("bench")
            times.add(began, between, time.perf_counter_ns())
    times.report("python-aio")


def main() -> None:
    address = os.environ["PAUSEWATCH_ADDRESS"]
    threads(address)
    asyncio.run(tasks(address))


main()
