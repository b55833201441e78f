"""The errors of this library: one type for each possible reaction of the caller.

The type of a refusal is chosen by the machine-readable reason that the server sends (`google.rpc.ErrorInfo`, domain
`pausewatch`), never by its text.

```text
PausewatchError
  ConfigError                 the configuration is wrong (also a ValueError)
    AddressError
  CallError                   a call failed; raised directly if no subclass fits
    InvalidField  RequestIdReused  NoOutstandingElicitation
    ElicitationUnknown  ElicitationReleased  ElicitationExpired  TooManyElicitations
    LimitExceeded             transient only if the limit is one of calls per second
    Unauthenticated  PermissionDenied
    TransientError            the same call may succeed if it is repeated
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
    """The base class of all errors of this library."""


class ConfigError(PausewatchError, ValueError):
    """The configuration is not valid: an argument, an environment variable or the config file. The text says which."""


@dataclass(frozen=True, slots=True)
class Status:
    """The status of a failed call: the server's, or this library's own if there was no answer."""

    code: StatusCode
    """The gRPC code."""
    message: str
    """The text, for people."""
    reason: str | None = None
    """The server's reason, for example `ELICITATION_EXPIRED`; None if it sent none, or did not answer."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Every dynamic part of the message, by name."""
    violations: tuple[tuple[str, str], ...] = ()
    """The refused fields, each with a description of the problem."""
    retry_after: timedelta | None = None
    """The delay after which a retry may succeed; None if the server sent none."""


class CallError(PausewatchError):
    """A call failed. Raised directly if no subclass fits: see `code`; then it is unknown whether something changed."""

    def __init__(self, status: Status) -> None:
        super().__init__(status)
        self.status = status
        """The status: the server's, or this library's own if there was no answer."""

    @property
    def code(self) -> StatusCode:
        """The gRPC code."""
        return self.status.code

    @property
    def reason(self) -> str | None:
        """The server's reason; None if it sent none, or did not answer."""
        return self.status.reason

    @property
    def metadata(self) -> Mapping[str, str]:
        """Every dynamic part of the message, by name."""
        return self.status.metadata

    @property
    def is_transient(self) -> bool:
        """Whether the same call may succeed if it is repeated with the same request id."""
        return False

    def __str__(self) -> str:
        return self.status.message or self.status.code.name


class InvalidField(CallError):
    """A field is out of its limits. Nothing changed; the same call is always refused."""

    @property
    def field(self) -> str:
        """The name of the field in the proto."""
        return self.status.violations[0][0] if self.status.violations else self.metadata.get("field", "")

    @property
    def description(self) -> str:
        """The problem, and the allowed values."""
        return (self.status.violations[0][1] if self.status.violations else "") or self.status.message

    @classmethod
    def of(cls, field: str, problem: str) -> InvalidField:
        """The error for a field that this library refuses before it sends anything, with the wording of the server."""
        text = f"{field} {problem}"
        status = Status(StatusCode.INVALID_ARGUMENT, text, "INVALID_FIELD", {"field": field}, ((field, text),))
        return cls(status)


class RequestIdReused(CallError):
    """The request id was already used by a call with other content. This call changed nothing."""


class NoOutstandingElicitation(CallError):
    """The thread has no open elicitation to close (a decrement at count 0). Nothing changed."""


class ElicitationUnknown(CallError):
    """The elicitation never existed on this thread, or the server has forgotten it. Nothing changed."""


class ElicitationReleased(CallError):
    """The elicitation was already closed, by a decrement. Nothing changed."""


class ElicitationExpired(CallError):
    """The elicitation was already closed, by the end of its lease: commands of its thread may have timed out.

    This call changed nothing.
    """


class TooManyElicitations(CallError):
    """The thread has the maximum number of open elicitations. Nothing changed; retry after one was closed."""


class LimitExceeded(CallError):
    """A limit of the caller, or of all callers together, is reached. Nothing changed.

    For a limit of calls per second, retries within the deadline did not help. Any other limit stays reached until something
    is closed.
    """

    @property
    def limit(self) -> str:
        """The coordinator's name of the limit, for example `streams-per-caller`."""
        return self.metadata.get("limit", "")

    @property
    def retry_after(self) -> timedelta | None:
        """The delay after which a retry may succeed; None if the server sent none."""
        return self.status.retry_after

    @property
    def is_transient(self) -> bool:
        """Whether it is a limit of calls per second."""
        return self.limit.startswith("calls-per-second")


class Unauthenticated(CallError):
    """The token is missing, wrong or expired: `reason` says which. Nothing changed."""


class PermissionDenied(CallError):
    """The token gives no access to this thread, or its role does not allow this call: `reason` says which. Nothing changed."""


class TransientError(CallError):
    """The same call may succeed if it is repeated with the same request id; it counts once."""

    @property
    def is_transient(self) -> bool:
        """Always."""
        return True


class StoreUnavailable(TransientError):
    """The coordinator could not store the change, and retries within the deadline did not help."""


class Unavailable(TransientError):
    """No coordinator answered, or the connection was lost, and retries within the deadline did not help.

    Whether the call counted is unknown.
    """

    @classmethod
    def of(cls, text: str) -> Unavailable:
        """The error for a lost connection that this library noticed."""
        return cls(Status(StatusCode.UNAVAILABLE, text))


class DeadlineExceeded(TransientError):
    """The deadline passed. Whether the call counted is unknown."""
