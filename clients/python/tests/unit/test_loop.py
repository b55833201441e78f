"""What the runtime of the event loop makes of exceptions of the program's interceptors.

With a stub that fails like them: gRPC's own calls would raise the exception again when they are destroyed.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from grpc import StatusCode

from pausewatch._io import calls
from pausewatch._io.loop import LoopRuntime
from pausewatch.errors import CallError


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
        runtime.stream(lambda _: None, ends.put_nowait, own_connection=False)
        for error in (answer, await ends.get()):
            assert isinstance(error, CallError)
            assert (error.code, str(error)) == (StatusCode.UNKNOWN, "LookupError: no credentials")
            assert isinstance(error.__cause__, LookupError)
