"""Which stream watches which thread, and what a message of a stream means. Pure: nothing is sent here.

A stream cannot be told to watch one more thread, so a change of the set opens a new one (a *leg*). It takes over all the
others that fit in with it, and they serve until its own snapshot is complete. What is added while a leg is being opened
waits, and shares the next one. So there is one stream, or with more than 10,000 threads, as few as hold them.

1. Each thread belongs to one leg at a time, so its states come in order.
2. A change of legs is no gap: the old leg serves until the new one has told everything.
3. Memory is bounded by the set; of a watch of everything, by the threads that are paused, or were at the last break.
4. Every break is told once, and the first state after it carries `gap`; `paused_total` says what was missed.
5. An answer to a question may overtake the stream: what the stream still tells of that thread is told only from there on.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .events import Disconnected, Event, SnapshotComplete, State

if TYPE_CHECKING:
    from ..errors import CallError
    from ..messages import PauseState

MOST_IDS = 10_000
"""The most thread ids that one stream may name."""
_SMALL = 32
"""A leg with more dead ids than live ones is opened anew, unless it is as small as this."""


@dataclass(slots=True)
class _Thread:
    leg: int | None
    revision: int | None = None
    gap: bool = True


@dataclass(slots=True)
class _Leg:
    thread_ids: tuple[str, ...]
    live: int
    """How many threads belong to it."""
    replaces: tuple[int, ...]
    """The legs that it takes over when its snapshot is complete."""
    held_back: dict[str, PauseState] = field(default_factory=dict)
    """What it has told of their threads until then."""
    complete: bool = False
    broken: bool = False

    @property
    def is_worn(self) -> bool:
        return len(self.thread_ids) > _SMALL and self.live < len(self.thread_ids) // 2


class Legs:
    """The streams of one watch: of the threads that are added, or with `everything`, of every thread.

    `to_open` and `to_close` name the legs whose streams are to be opened and closed, `events` is what is to be told, and
    `missing` are the threads that must be asked for one by one; whoever drives this takes them from there.
    """

    def __init__(self, *, everything: bool = False) -> None:
        self.everything = everything
        self.to_open: deque[tuple[int, tuple[str, ...]]] = deque()
        self.to_close: deque[int] = deque()
        self.events: deque[Event] = deque()
        self.missing: list[str] = []
        self._threads: dict[str, _Thread] = {}
        # Of everything: the revisions that asking has brought since the last break.
        self._asked: dict[str, int] = {}
        self._legs: dict[int, _Leg] = {}
        self._last_leg = 0
        # One at a time: what is added meanwhile shares the next.
        self._opening: int | None = None
        # Added, and on no leg yet.
        self._waiting: dict[str, None] = {}
        self._told_complete = False
        # Whether the streams may be other than they should be.
        self._unsettled = False
        if everything:
            self._open((), 0, ())

    def add(self, thread_id: str) -> None:
        """Watches one thread more; nothing happens if it is watched already."""
        if thread_id not in self._threads:
            self._threads[thread_id] = _Thread(leg=None)
            self._waiting[thread_id] = None
            self._told_complete, self._unsettled = False, True

    def remove(self, thread_id: str) -> None:
        """Watches one thread less."""
        thread = self._threads.pop(thread_id, None)
        self._waiting.pop(thread_id, None)
        if thread is None or thread.leg is None:
            return
        leg, self._unsettled = self._legs[thread.leg], True
        leg.live -= 1
        if leg.live == 0 and not leg.replaces:
            self._drop(thread.leg)

    def open_next(self) -> None:
        """Opens a leg for what waits, if it is time to, and lets it take over what fits in with it."""
        if self.everything or self._opening is not None or not self._unsettled:
            return
        self._unsettled = False
        thread_ids = [thread_id for thread_id, _ in zip(self._waiting, range(MOST_IDS), strict=False)]
        added, worn, replaces = len(thread_ids), False, list[int]()
        smallest_first = sorted(self._legs.items(), key=lambda entry: entry[1].live)
        for number, leg in smallest_first:
            if leg.complete and len(thread_ids) + leg.live <= MOST_IDS:
                thread_ids.extend(thread_id for thread_id in leg.thread_ids if self._owner(thread_id) == number)
                replaces.append(number)
                worn = worn or leg.is_worn
        if added or worn or len(replaces) > 1:
            self._open(tuple(thread_ids), added, tuple(replaces))

    def state(self, number: int, state: PauseState) -> None:
        """A leg brought a state."""
        leg = self._legs.get(number)
        if leg is None:
            return
        leg.broken = False
        if self.everything:
            self._tell_any(number, leg, state)
            return
        owner = self._owner(state.thread_id)
        if owner == number:
            self._tell(state)
        elif owner in leg.replaces:
            leg.held_back[state.thread_id] = state

    def snapshot_complete(self, number: int) -> None:
        """A leg has told each of its threads."""
        leg = self._legs.get(number)
        if leg is None:
            return
        leg.complete, leg.broken, self._unsettled = True, False, True
        replaces, leg.replaces = leg.replaces, ()
        held_back, leg.held_back = leg.held_back, {}
        for old in replaces:
            if (old_leg := self._legs.pop(old, None)) is None:
                continue
            self.to_close.append(old)
            for thread_id in old_leg.thread_ids:
                thread = self._threads.get(thread_id)
                if thread is not None and thread.leg == old:
                    thread.leg = number
                    leg.live += 1
        for state in held_back.values():
            self._tell(state)
        if self._opening == number:
            self._opening = None
        if self.everything:
            # A snapshot of everything names the paused threads only: what it does not name was resumed in the gap.
            self.missing = [thread_id for thread_id, thread in self._threads.items() if thread.gap]
        elif leg.live == 0:
            self._drop(number)
        self._tell_complete()

    def broken(self, number: int, error: CallError) -> None:
        """The stream of a leg broke, or could not be opened. The leg opens it again by itself."""
        leg = self._legs.get(number)
        if leg is None:
            return
        leg.complete = False
        first, leg.broken = not leg.broken, True
        affected = [thread_id for thread_id, thread in self._threads.items() if thread.leg == number]
        for thread_id in affected:
            self._threads[thread_id].gap = True
        if self._opening == number and not error.is_transient:
            # Refused. It goes on trying for its own threads, but nobody else waits for it.
            self._opening, leg.replaces, self._unsettled = None, (), True
            if not affected and not self.everything:
                self._drop(number)
        if first and (affected or self.everything):
            self._told_complete = False
            self.missing = []
            self._asked.clear()
            self.events.append(Disconnected(frozenset() if self.everything else frozenset(affected), error))

    def found(self, thread_id: str, state: PauseState | None) -> None:
        """What asking for a missing thread brought; None: it cannot be asked for."""
        self.missing.remove(thread_id)
        thread = self._threads.get(thread_id)
        # Without a gap, or forgotten: the stream has told more since, and goes on by itself.
        if state is not None and thread is not None and thread.gap:
            self._tell(state)
            self._asked[thread_id] = state.revision
            if not state.paused:
                del self._threads[thread_id]
        self._tell_complete()

    def _open(self, thread_ids: tuple[str, ...], added: int, replaces: tuple[int, ...]) -> None:
        self._last_leg += 1
        self._opening = self._last_leg
        self._legs[self._last_leg] = _Leg(thread_ids, added, replaces)
        for thread_id in thread_ids[:added]:
            self._threads[thread_id].leg = self._last_leg
            del self._waiting[thread_id]
        self.to_open.append((self._last_leg, thread_ids))

    def _drop(self, number: int) -> None:
        del self._legs[number]
        self.to_close.append(number)
        if self._opening == number:
            self._opening = None

    def _owner(self, thread_id: str) -> int | None:
        thread = self._threads.get(thread_id)
        return None if thread is None else thread.leg

    def _tell(self, state: PauseState) -> None:
        """Tells a state of a thread in the set, unless it is no news."""
        thread = self._threads.get(state.thread_id)
        if thread is None:
            return
        gap, changed = thread.gap, thread.revision != state.revision
        # A new leg may be behind the old one that it takes over.
        if not gap and thread.revision is not None and state.revision <= thread.revision:
            return
        thread.gap, thread.revision = False, state.revision
        self.events.append(State(state, gap, changed))

    def _tell_any(self, number: int, leg: _Leg, state: PauseState) -> None:
        """Of everything: tells a state, and remembers the thread only while it is paused."""
        if state.revision <= self._asked.get(state.thread_id, -1):
            return
        self._threads.setdefault(state.thread_id, _Thread(leg=number, gap=not leg.complete))
        self._tell(state)
        if not state.paused:
            del self._threads[state.thread_id]

    def _tell_complete(self) -> None:
        # A leg that has no threads yet only takes over what others serve.
        legs_complete = all(leg.complete or (leg.live == 0 and not self.everything) for leg in self._legs.values())
        if not self._told_complete and not self._waiting and not self.missing and legs_complete:
            self._told_complete = True
            self.events.append(SnapshotComplete())
