"""What can go wrong: one type for each thing that a caller does next.

A refusal is found by the machine-readable reason that the server sends (`google.rpc.ErrorInfo`, domain `pausewatch`),
never by its text.

```text
PausewatchError
  ConfigError                 the configuration is wrong (also a ValueError)
    AddressError
  CallError                   a call failed; raised itself for what has no type of its own
    InvalidField  RequestIdReused  NoOutstandingElicitation
    ElicitationUnknown  ElicitationReleased  ElicitationExpired  TooManyElicitations
    LimitExceeded             transient only where the limit is one of calls a second
    TransientError            the same call may succeed if it is made again
      StoreUnavailable  Unavailable  DeadlineExceeded
```
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from grpc import StatusCode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta


class PausewatchError(Exception):
    """The base of every error that this library raises on purpose."""


class ConfigError(PausewatchError, ValueError):
    """The configuration is wrong: an argument, an environment variable or the config file. The text says which."""


@dataclass(frozen=True, slots=True)
class Status:
    """How a call ended, as the server said it, or as this library says it when nothing came."""

    code: StatusCode
    """The gRPC code."""
    message: str
    """For people."""
    reason: str | None = None
    """The server's reason, for example `ELICITATION_EXPIRED`; None when it gave none, or never answered."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Every dynamic part of the message, by name."""
    violations: tuple[tuple[str, str], ...] = ()
    """The fields that were refused, each with what is wrong."""
    retry_after: timedelta | None = None
    """When another try may help; None when the server gave no time."""


class CallError(PausewatchError):
    """A call failed. Raised itself when no type below fits: see `code`; whether something changed is unknown then."""

    def __init__(self, status: Status) -> None:
        super().__init__(status)
        self.status = status
        """The status that came, or that this library made when nothing came."""

    @property
    def code(self) -> StatusCode:
        """The gRPC code."""
        return self.status.code

    @property
    def reason(self) -> str | None:
        """The server's reason; None when it gave none, or never answered."""
        return self.status.reason

    @property
    def metadata(self) -> Mapping[str, str]:
        """Every dynamic part of the message, by name."""
        return self.status.metadata

    @property
    def is_transient(self) -> bool:
        """Whether the call may succeed if it is made again just so, with the same request id."""
        return False

    def __str__(self) -> str:
        return self.status.message or self.status.code.name


class InvalidField(CallError):
    """A field is out of its limits. Nothing changed; the same call will always be refused."""

    @property
    def field(self) -> str:
        """The field, as the proto names it."""
        return self.status.violations[0][0] if self.status.violations else self.metadata.get("field", "")

    @property
    def description(self) -> str:
        """What it was and what is allowed."""
        return (self.status.violations[0][1] if self.status.violations else "") or self.status.message

    def __str__(self) -> str:
        return self.description

    @classmethod
    def of(cls, field: str, problem: str) -> InvalidField:
        """A field that this library refuses before it sends anything, worded as the server words it."""
        text = f"{field} {problem}"
        status = Status(StatusCode.INVALID_ARGUMENT, text, "INVALID_FIELD", {"field": field}, ((field, text),))
        return cls(status)


class RequestIdReused(CallError):
    """The request id was used by a call with other content. Nothing changed by this call."""


class NoOutstandingElicitation(CallError):
    """A decrement at count 0: there is nothing to close. Nothing changed."""


class ElicitationUnknown(CallError):
    """The elicitation never existed on this thread, or the server has forgotten it. Nothing changed."""


class ElicitationReleased(CallError):
    """The named elicitation was closed before, by a decrement. Nothing changed."""


class ElicitationExpired(CallError):
    """The named elicitation was closed before, by the end of its lease: commands of its thread may have timed out.

    Nothing changed by this call.
    """


class TooManyElicitations(CallError):
    """The thread has as many open elicitations as are allowed. Nothing changed; there is room when one closes."""


class LimitExceeded(CallError):
    """The caller, or all callers together, have as much as the coordinator lets them have. Nothing changed.

    For a limit of calls a second, retries within the deadline did not help. Any other limit is met until something is
    closed.
    """

    @property
    def limit(self) -> str:
        """Which limit, as the coordinator names it: `streams-per-caller`."""
        return self.metadata.get("limit", "")

    @property
    def retry_after(self) -> timedelta | None:
        """When another try may help; None when the server gave no time."""
        return self.status.retry_after

    @property
    def is_transient(self) -> bool:
        """Whether it is only that there were too many calls in this second."""
        return self.limit.startswith("calls-per-second")


class Unauthenticated(CallError):
    """The token is missing, wrong or has expired: the reason says which. Nothing changed."""


class PermissionDenied(CallError):
    """The token does not open this thread, or its role may not do this: the reason says which. Nothing changed."""


class TransientError(CallError):
    """The same call may succeed if it is made again, with the same request id: it counts once."""

    @property
    def is_transient(self) -> bool:
        """Always."""
        return True


class StoreUnavailable(TransientError):
    """The coordinator could not store the change, and retries within the deadline did not help."""


class Unavailable(TransientError):
    """No coordinator answered, or the connection broke, and retries within the deadline did not help.

    Whether the call counted is unknown.
    """

    @classmethod
    def of(cls, text: str) -> Unavailable:
        """A broken connection that this side noticed."""
        return cls(Status(StatusCode.UNAVAILABLE, text))


class DeadlineExceeded(TransientError):
    """The deadline passed. Whether the call counted is unknown."""
