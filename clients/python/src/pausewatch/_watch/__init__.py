"""A watch that heals itself, over a set of threads that may change while it runs. One stream serves all of them.

| module | is |
| --- | --- |
| `requests` | pure: what to send next, and which request is under way |
| `stream` | the stream, opened again whenever it breaks |
| `watching` | the two together, and what the messages mean |
| `pending` | pure: what waits for a slow reader |
"""
