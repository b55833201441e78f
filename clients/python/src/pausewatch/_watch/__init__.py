"""A watch that reconnects by itself, over a set of threads that may change while it runs. One stream serves all of them.

| module | contents |
| --- | --- |
| `requests` | pure: the next request to send, and the request that is under way |
| `stream` | the stream, which is reopened after every disconnect |
| `watching` | combines both, and turns the messages into events |
| `pending` | pure: the events that a slow reader has not read yet |
"""
