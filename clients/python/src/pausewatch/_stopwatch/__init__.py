"""Stopwatches that stand still while a person is being asked.

A command is charged its wall time, less the time in which its thread was paused, less the time in which its own stopwatch was
paused. Time in which both were paused is subtracted once.

| module | contents |
| --- | --- |
| `meter` | pure: the time that one stopwatch has been charged |
| `paused_time` | pure: how long one thread has been paused, as far as this process knows |
| `paused_union` | pure: how long any of several threads has been paused |
| `follows` | the threads whose pauses stop one stopwatch: its own, and those that it awaits |
| `thread_clock` | the paused time of one thread, shared by its stopwatches, and the confirmations that they request |
| `ticking` | one stopwatch: checks its state, waits, and expires |
| `ended_by` | which limit ended a stopwatch |
| `controller` | which stopwatch follows which thread, and their common watch |

1. A stopwatch expires only after the coordinator has confirmed, by a request sent after the time ran out, that the thread runs
   (G1), or after the coordinator was unreachable for the whole disconnect grace. Its `max_wall` ends it at its time, even during
   a pause.
2. A pause that cannot be confirmed ends: after a disconnect, a paused thread counts as paused for the disconnect grace, and then
   as running (G2).
3. The paused time of a thread follows the server's `paused_total`. It is never computed from the observed events, so a pause
   that this process did not observe is credited like any other (G3).
4. Pausing a thread changes one shared record and wakes no task: a stopwatch finds the pause when its timer fires. (Only the
   union of a stopwatch that awaits other threads is settled.)
"""
