"""A watch that heals itself, over a set of threads that may change while it runs.

| module | is |
| --- | --- |
| `stream_set` | pure: which stream watches which thread, and what a message means |
| `stream` | one stream, opened again whenever it breaks |
| `watching` | the two together, with the questions that a watch of everything has to ask |
| `pending` | pure: what waits for a slow reader |
"""
