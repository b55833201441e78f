"""Stopwatches that stand still while a person is being asked.

A command is charged its wall time, less the time its thread was paused, less the time its own stopwatch was paused (a
moment that is both counts once).

| module | is |
| --- | --- |
| `meter` | pure: what one stopwatch has been charged |
| `paused_time` | pure: how long one thread has been paused, as far as this process knows |
| `paused_union` | pure: how long any of several threads has been paused |
| `follows` | the threads whose pauses stop one stopwatch: its own, and those that it awaits |
| `thread_clock` | the paused time of one thread, shared by its stopwatches; asking the coordinator on their behalf |
| `ticking` | one stopwatch: looking, waiting, expiring |
| `ended_by` | which limit ended a stopwatch |
| `controller` | which stopwatch follows which thread, and the watch that feeds them |

1. A stopwatch expires only after the coordinator, asked once more after the time ran out, said that the thread runs (G1),
   or when it could not be asked for the whole disconnect grace. Its `max_wall` ends it at its time, whatever is paused.
2. What is not confirmed ends: cut off, a paused thread counts as paused for the disconnect grace and then runs (G2).
3. The paused time of a thread follows the server's `paused_total` and is never recomputed from what was seen, so a pause that
   nobody here saw is credited like any other (G3).
4. Pausing a thread changes one shared record and wakes no task: a stopwatch finds out when its timer fires. (Only the
   union of a stopwatch that awaits other threads is settled.)
"""
