"""`python -m player threads|tasks`: reads steps from standard input, a JSON object a line, and answers on standard output."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from typing import TYPE_CHECKING

from . import wire
from .ops import Ops
from .styles import Tasks, Threads

if TYPE_CHECKING:
    from .wire import Json

_STYLES: dict[str, type[Threads | Tasks]] = {"threads": Threads, "tasks": Tasks}


async def play(style: Threads | Tasks) -> None:
    ops = Ops(style)
    lines: asyncio.Queue[str] = asyncio.Queue()
    threading.Thread(target=_read, args=(asyncio.get_running_loop(), lines), daemon=True).start()
    under_way: set[asyncio.Task[None]] = set()
    while line := await lines.get():
        task = asyncio.create_task(_answer(ops, json.loads(line)))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
    for task in under_way:
        task.cancel()
    await ops.reset({})


async def _answer(ops: Ops, step: Json) -> None:
    answer: Json = {"id": step["id"]}
    try:
        answer["ok"] = await getattr(ops, step["do"])(step) or {}
    except Exception as error:
        answer["error"] = wire.error(error)
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _read(loop: asyncio.AbstractEventLoop, lines: asyncio.Queue[str]) -> None:
    for line in sys.stdin:
        loop.call_soon_threadsafe(lines.put_nowait, line)
    loop.call_soon_threadsafe(lines.put_nowait, "")


asyncio.run(play(_STYLES[sys.argv[1]]()))
