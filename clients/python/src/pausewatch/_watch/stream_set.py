"""Which stream watches which thread, and what a message of a stream means. Pure: nothing is sent here.

A stream cannot add threads, so a change of the set opens a new one. The new stream takes over all the
others that fit, and they keep serving until its snapshot is complete. Threads added while a stream is being opened wait
for the next one and share it. So there is one stream, or with more than 10,000 threads, as few as hold them.

1. Each thread belongs to one stream at a time, so its states arrive in order.
2. Replacing a stream leaves no gap: the old stream serves until the new one has sent its whole snapshot.
3. Memory is bounded by the set; of a watch of everything, by the threads that are paused, or were at the last break.
4. Every disconnection is reported once, and the first state after it carries `gap`; `paused_total` says what was missed.
5. A call that asks for a state may overtake the stream: older states of that thread on the stream are then dropped.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .events import Disconnected, Event, SnapshotComplete, State

if TYPE_CHECKING:
    from datetime import timedelta

    from ..errors import CallError
    from ..messages import PauseState

MOST_IDS = 10_000
"""The most thread ids that one stream may name."""
_SMALL = 32
"""A stream with more removed threads than live ones is replaced, unless it names no more than this many."""


_Version = tuple[int, int]
"""The epoch and the revision of a state."""


@dataclass(slots=True)
class _Thread:
    stream: int | None
    told: _Version | None = None
    gap: bool = True


@dataclass(slots=True)
class _Stream:
    thread_ids: tuple[str, ...]
    live: int
    """How many threads belong to it."""
    replaces: tuple[int, ...]
    """The streams that it takes over when its snapshot is complete."""
    held_back: dict[str, PauseState] = field(default_factory=dict)
    """What it has told of their threads until then."""
    complete: bool = False
    broken: bool = False

    @property
    def is_worn(self) -> bool:
        return len(self.thread_ids) > _SMALL and self.live < len(self.thread_ids) // 2


class StreamSet:
    """The streams of one watch: of the threads that are added, or with `everything`, of every thread.

    `to_open` and `to_close` are the numbers of the streams to open and to close, `events` are the events to deliver, and
    `missing` are the threads that must be asked for one by one; whoever drives this takes them from there.
    """

    def __init__(self, *, everything: bool = False) -> None:
        self.everything = everything
        self.to_open: deque[tuple[int, tuple[str, ...]]] = deque()
        self.to_close: deque[int] = deque()
        self.events: deque[Event] = deque()
        self.missing: list[str] = []
        self._threads: dict[str, _Thread] = {}
        # Of everything: the versions that asking has brought since the last break.
        self._asked: dict[str, _Version] = {}
        self._streams: dict[int, _Stream] = {}
        self._last_stream = 0
        # One at a time: what is added meanwhile shares the next.
        self._opening: int | None = None
        # Added, and on no stream yet.
        self._waiting: dict[str, None] = {}
        self._told_complete = False
        # Whether the streams may be other than they should be.
        self._unsettled = False
        if everything:
            self._open((), 0, ())

    def add(self, thread_id: str) -> None:
        """Watches one thread more; nothing happens if it is watched already."""
        if thread_id not in self._threads:
            self._threads[thread_id] = _Thread(stream=None)
            self._waiting[thread_id] = None
            self._told_complete, self._unsettled = False, True

    def remove(self, thread_id: str) -> None:
        """Watches one thread less."""
        thread = self._threads.pop(thread_id, None)
        self._waiting.pop(thread_id, None)
        if thread is None or thread.stream is None:
            return
        stream, self._unsettled = self._streams[thread.stream], True
        stream.live -= 1
        if stream.live == 0 and not stream.replaces:
            self._drop(thread.stream)

    def open_next(self) -> None:
        """Opens a stream for the waiting threads, if it is time, and lets it take over the streams that fit."""
        if self.everything or self._opening is not None or not self._unsettled:
            return
        self._unsettled = False
        thread_ids = [thread_id for thread_id, _ in zip(self._waiting, range(MOST_IDS), strict=False)]
        added, worn, replaces = len(thread_ids), False, list[int]()
        smallest_first = sorted(self._streams.items(), key=lambda entry: entry[1].live)
        for number, stream in smallest_first:
            if stream.complete and len(thread_ids) + stream.live <= MOST_IDS:
                thread_ids.extend(thread_id for thread_id in stream.thread_ids if self._owner(thread_id) == number)
                replaces.append(number)
                worn = worn or stream.is_worn
        if added or worn or len(replaces) > 1:
            self._open(tuple(thread_ids), added, tuple(replaces))

    def state(self, number: int, state: PauseState) -> None:
        """A stream brought a state."""
        stream = self._streams.get(number)
        if stream is None:
            return
        stream.broken = False
        if self.everything:
            self._tell_any(number, stream, state)
            return
        owner = self._owner(state.thread_id)
        if owner == number:
            self._tell(state)
        elif owner in stream.replaces:
            stream.held_back[state.thread_id] = state

    def snapshot_complete(self, number: int) -> None:
        """A stream has sent the state of each of its threads."""
        stream = self._streams.get(number)
        if stream is None:
            return
        stream.complete, stream.broken, self._unsettled = True, False, True
        replaces, stream.replaces = stream.replaces, ()
        held_back, stream.held_back = stream.held_back, {}
        for old in replaces:
            if (old_stream := self._streams.pop(old, None)) is None:
                continue
            self.to_close.append(old)
            for thread_id in old_stream.thread_ids:
                thread = self._threads.get(thread_id)
                if thread is not None and thread.stream == old:
                    thread.stream = number
                    stream.live += 1
        for state in held_back.values():
            self._tell(state)
        if self._opening == number:
            self._opening = None
        if self.everything:
            # A snapshot of everything names the paused threads only: what it does not name was resumed in the gap.
            self.missing = [thread_id for thread_id, thread in self._threads.items() if thread.gap]
        elif stream.live == 0:
            self._drop(number)
        self._tell_complete()

    def broken(self, number: int, error: CallError, silent_for: timedelta) -> None:
        """The stream broke or could not be opened. It reopens by itself."""
        stream = self._streams.get(number)
        if stream is None:
            return
        stream.complete = False
        first, stream.broken = not stream.broken, True
        affected = [thread_id for thread_id, thread in self._threads.items() if thread.stream == number]
        for thread_id in affected:
            self._threads[thread_id].gap = True
        if self._opening == number and not error.is_transient:
            # Refused. It keeps retrying for its own threads, but no other thread waits for it.
            self._opening, stream.replaces, self._unsettled = None, (), True
            if not affected and not self.everything:
                self._drop(number)
        if first and (affected or self.everything):
            self._told_complete = False
            self.missing = []
            self._asked.clear()
            thread_ids = frozenset() if self.everything else frozenset(affected)
            self.events.append(Disconnected(thread_ids, error, silent_for))

    def found(self, thread_id: str, state: PauseState | None) -> None:
        """What asking for a missing thread brought; None: it cannot be asked for."""
        self.missing.remove(thread_id)
        thread = self._threads.get(thread_id)
        # Without a gap, or removed: the stream has delivered a newer state and continues.
        if state is not None and thread is not None and thread.gap:
            self._tell(state)
            self._asked[thread_id] = _version(state)
            if not state.paused:
                del self._threads[thread_id]
        self._tell_complete()

    def _open(self, thread_ids: tuple[str, ...], added: int, replaces: tuple[int, ...]) -> None:
        self._last_stream += 1
        self._opening = self._last_stream
        self._streams[self._last_stream] = _Stream(thread_ids, added, replaces)
        for thread_id in thread_ids[:added]:
            self._threads[thread_id].stream = self._last_stream
            del self._waiting[thread_id]
        self.to_open.append((self._last_stream, thread_ids))

    def _drop(self, number: int) -> None:
        del self._streams[number]
        self.to_close.append(number)
        if self._opening == number:
            self._opening = None

    def _owner(self, thread_id: str) -> int | None:
        thread = self._threads.get(thread_id)
        return None if thread is None else thread.stream

    def _tell(self, state: PauseState) -> None:
        """Tells a state of a thread in the set, unless it is no news."""
        thread = self._threads.get(state.thread_id)
        if thread is None:
            return
        gap, told = thread.gap, thread.told
        changed = told != _version(state)
        # A new stream may be behind the old one that it takes over.
        if not gap and _is_no_news(state, told):
            return
        thread.gap, thread.told = False, _version(state)
        self.events.append(State(state, gap, changed))

    def _tell_any(self, number: int, stream: _Stream, state: PauseState) -> None:
        """Of everything: tells a state, and remembers the thread only while it is paused."""
        if _is_no_news(state, self._asked.get(state.thread_id)):
            return
        self._threads.setdefault(state.thread_id, _Thread(stream=number, gap=not stream.complete))
        self._tell(state)
        if not state.paused:
            del self._threads[state.thread_id]

    def _tell_complete(self) -> None:
        # A stream that has no threads yet only takes over what others serve.
        streams_complete = all(stream.complete or (stream.live == 0 and not self.everything) for stream in self._streams.values())
        if not self._told_complete and not self._waiting and not self.missing and streams_complete:
            self._told_complete = True
            self.events.append(SnapshotComplete())


def _version(state: PauseState) -> _Version:
    return state.store_epoch, state.revision


def _is_no_news(state: PauseState, told: _Version | None) -> bool:
    """Whether what was told is as new as `state`. Another epoch is news: the server lost what it told before."""
    return told is not None and told[0] == state.store_epoch and state.revision <= told[1]
