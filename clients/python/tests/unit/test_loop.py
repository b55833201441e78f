"""What the runtime of the event loop makes of failures: of the program's interceptors, of its token source, of a replica.

With a stub that fails like them: gRPC's own calls would raise the exception of an interceptor again when they are destroyed.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from grpc import StatusCode
from grpc.aio import AioRpcError, Metadata

from pausewatch._io import calls, tokens
from pausewatch._io.loop import LoopRuntime
from pausewatch.errors import CallError, DeadlineExceeded


def _failing(*_: object, **__: object) -> Any:
    raise LookupError("no credentials")


async def _no_token(_: int | None) -> None: ...


async def test_an_interceptor_that_fails_is_the_answer_of_its_call_and_the_end_of_its_stream() -> None:
    route = SimpleNamespace(now=(0, SimpleNamespace(GetPauseState=_failing, Watch=_failing)), has_several=False)
    spec = SimpleNamespace(next_token=_no_token, metadata=lambda _: ())
    runtime = LoopRuntime(cast("Any", route), cast("Any", spec))
    ends: asyncio.Queue[object] = asyncio.Queue()
    async with asyncio.timeout(20):
        runtime.unary(calls.get("t"), 10**9, ends.put_nowait)
        answer = await ends.get()
        runtime.stream(None, lambda _: None, ends.put_nowait, own_connection=False)
        for error in (answer, await ends.get()):
            assert isinstance(error, CallError)
            assert (error.code, str(error)) == (StatusCode.UNKNOWN, "LookupError: no credentials")
            assert isinstance(error.__cause__, LookupError)


async def test_a_replica_that_is_silent_for_half_of_a_short_timeout_is_left_and_a_late_token_leaves_none() -> None:
    timeouts: list[float] = []
    moves: list[int] = []

    async def silent(_: object, **options: Any) -> Any:
        timeouts.append(options["timeout"])
        raise AioRpcError(StatusCode.DEADLINE_EXCEEDED, Metadata(), Metadata())

    async def late(limit: int) -> None:
        raise tokens.late(limit)

    route = SimpleNamespace(now=(7, SimpleNamespace(GetPauseState=silent)), has_several=True, move_on=moves.append)
    spec = SimpleNamespace(next_token=late, metadata=lambda _: (), address="a")
    runtime = LoopRuntime(cast("Any", route), cast("Any", spec))
    ends: asyncio.Queue[object] = asyncio.Queue()
    async with asyncio.timeout(20):
        runtime.unary(calls.get("t"), 10**9, ends.put_nowait)
        assert isinstance(await ends.get(), DeadlineExceeded)
        assert (timeouts, moves) == ([], [])
        spec.next_token = _no_token
        runtime.unary(calls.get("t"), 10**9, ends.put_nowait)
        assert isinstance(await ends.get(), DeadlineExceeded)
        assert (timeouts, moves) == ([0.5], [7])
