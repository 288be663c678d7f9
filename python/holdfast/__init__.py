"""Holdfast: only one of us at a time, for the processes of a host or of all hosts of a cell.

    import holdfast

    with holdfast.Client() as client:
        with client.lock("nightly-report").acquire(timeout=10) as hold:
            store.write(report, token=hold.token)

A hold is a lease. The agent renews it, so the program need not call anything for that. A hold
never counts beyond its deadline: hold.remaining() says for how long it still counts. If it was
lost, the end of the block raises LockLost. A process that was stopped until after the deadline
does not notice that by itself, so give the token to the resource that you write to, and let the
resource refuse lower tokens.

Durations are in seconds, except where a name ends in _ns. Every failure is a subclass of Error.
Threads may share every object of this package. After os.fork() the child owns nothing: see Client.

The package calls libholdfast.so.0. holdfast.h is the reference of what each call does.
"""

from . import _library
from ._client import Client
from ._errors import (
    AccessDenied,
    AlreadyHeld,
    Canceled,
    Closed,
    Deadlock,
    Error,
    Forked,
    Full,
    InvalidArgument,
    LockLost,
    NameTooLong,
    NoAgent,
    NotAcquired,
    NotHeld,
    OutOfMemory,
    ProtocolError,
    Reason,
    ReasonKind,
    Stale,
    Timeout,
    Unknown,
    Unserved,
    VersionMismatch,
    WouldBlock,
)
from ._events import Event, EventKind, Listener
from ._lock import AsyncAcquire, Hold, Holds, Lock, acquire_all


def version() -> str:
    """The version of the library, such as "0.1.0"."""
    text: bytes = _library.hf_version()
    return text.decode("ascii")


__all__ = [
    "AccessDenied",
    "AlreadyHeld",
    "AsyncAcquire",
    "Canceled",
    "Client",
    "Closed",
    "Deadlock",
    "Error",
    "Event",
    "EventKind",
    "Forked",
    "Full",
    "Hold",
    "Holds",
    "InvalidArgument",
    "Listener",
    "Lock",
    "LockLost",
    "NameTooLong",
    "NoAgent",
    "NotAcquired",
    "NotHeld",
    "OutOfMemory",
    "ProtocolError",
    "Reason",
    "ReasonKind",
    "Stale",
    "Timeout",
    "Unknown",
    "Unserved",
    "VersionMismatch",
    "WouldBlock",
    "acquire_all",
    "version",
]

# Tracebacks then show the names by which a program knows these classes.
for _name in __all__:
    if isinstance(globals()[_name], type):
        globals()[_name].__module__ = __name__
del _name
