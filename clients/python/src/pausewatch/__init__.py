"""Client of pausewatch, which freezes the timeouts of an agent's commands while a person is being asked something.

A tool that asks a person holds the thread; meanwhile the clocks of the thread's commands stand still:

```python
with Client.from_env() as client, client.hold("thread-1", reason="May I push?"):
    answer = input("May I push? [y/n] ")
```

A program that runs commands gives them a timeout that stands still too:

```python
async with pausable_timeout(10, thread_id="thread-1"):
    await command()
```

1. A call that is retried has the same request id each time, so it counts once (G4).
2. Nothing waits forever: a call ends with its deadline, a background release with its lease. Only a watch continues until it
   is closed.
3. If the program dies, its open elicitations end with their leases (G2).
"""

from ._io.durations import Seconds
from ._stopwatch.link import Link, LinkState
from .address import Address, AddressError
from .aio import AsyncClient, pausable_timeout
from .client import Client
from .config import Config, Tls
from .errors import (
    CallError,
    ConfigError,
    DeadlineExceeded,
    ElicitationExpired,
    ElicitationReleased,
    ElicitationUnknown,
    InvalidField,
    LimitExceeded,
    NoOutstandingElicitation,
    PausewatchError,
    PermissionDenied,
    RequestIdReused,
    Status,
    StoreUnavailable,
    TooManyElicitations,
    TransientError,
    Unauthenticated,
    Unavailable,
)
from .hold import AsyncHold, Ending, Hold, Lease, Release
from .messages import (
    ClosedElicitation,
    Decremented,
    Elicitation,
    Incremented,
    Pause,
    PauseEnd,
    PausePage,
    PauseState,
    PauseStatePage,
)
from .stopwatch import AsyncStopwatch, EndedBy, Stopwatch
from .timeout import PausableTimeout
from .watch import AsyncWatch, Disconnected, Event, SnapshotComplete, State, Watch

__version__ = "0.1.0"

__all__ = [
    "Address",
    "AddressError",
    "AsyncClient",
    "AsyncHold",
    "AsyncStopwatch",
    "AsyncWatch",
    "CallError",
    "Client",
    "ClosedElicitation",
    "Config",
    "ConfigError",
    "DeadlineExceeded",
    "Decremented",
    "Disconnected",
    "Elicitation",
    "ElicitationExpired",
    "ElicitationReleased",
    "ElicitationUnknown",
    "EndedBy",
    "Ending",
    "Event",
    "Hold",
    "Incremented",
    "InvalidField",
    "Lease",
    "LimitExceeded",
    "Link",
    "LinkState",
    "NoOutstandingElicitation",
    "PausableTimeout",
    "Pause",
    "PauseEnd",
    "PausePage",
    "PauseState",
    "PauseStatePage",
    "PausewatchError",
    "PermissionDenied",
    "Release",
    "RequestIdReused",
    "Seconds",
    "SnapshotComplete",
    "State",
    "Status",
    "Stopwatch",
    "StoreUnavailable",
    "Tls",
    "TooManyElicitations",
    "TransientError",
    "Unauthenticated",
    "Unavailable",
    "Watch",
    "__version__",
    "pausable_timeout",
]
