"""The exceptions of this package, and the reason that some of them have."""

import dataclasses
import enum
from typing import ClassVar

from . import _library


class ReasonKind(enum.IntEnum):
    """Why a lock is not to be had, or why a hold ended. A later version of the library may have
    more kinds."""

    NOTHING = 0
    """Nothing is known that prevents a take now; of an event: the reason is not known."""
    HELD = 1
    """A holder is known."""
    AWAITED = 2
    """No holder is known, and others wait for the lock."""
    CLOSED = 3
    """A lock-delay keeps the lock closed."""
    NO_MAJORITY = 4
    """No majority of the voters answers this host."""
    NO_AGENT = 5
    """No agent answers on this host."""
    UNKNOWN = 6
    """A host that has reported nothing for too long may hold the lock."""
    BROKEN = 7
    """The hold ended: an administrator broke it."""
    LEASE_OVER = 8
    """The hold ended: its `lease` was over."""
    STALLED = 9
    """The hold ended: progress was not reported for `max_stall`."""
    SESSION_LOST = 10
    """The hold ended: this host's session was not renewed in time."""
    AGENT_GONE = 11
    """The hold ended: this host had no agent that could renew the session."""
    FORGOTTEN = 12
    """The hold ended: the agent does not know this process any more."""
    DAMAGED = 13
    """The hold ended: the memory that processes share with the agent had invalid bytes."""
    ENDED = 14
    """The hold ended, and the reason is not known."""


def reason_kind(number: int) -> ReasonKind | int:
    """The kind, or the number itself if this package does not know it."""
    try:
        return ReasonKind(number)
    except ValueError:
        return number


def printable(text: bytes) -> str:
    """The text with a question mark for each character that a terminal should not get."""
    decoded = text.decode("utf-8", "replace")
    return "".join(char if char.isprintable() else "?" for char in decoded)


@dataclasses.dataclass(frozen=True, slots=True)
class Reason:
    """Why a lock is not to be had, or why a hold ended. What is not known is None, or an empty
    text. Times are in seconds."""

    kind: ReasonKind | int
    text: str
    """The whole reason in one line of English, without the lock's name."""
    since: float | None
    """For how long the reason has existed, or how long ago the hold ended."""
    closed: float
    """For how long the lock stays closed; 0: it is not closed."""
    pid: int | None
    """The process of the first holder; if the lock is closed, of the last holder."""
    uid: int | None
    """The user of that holder, or the user that broke the hold."""
    agent: str
    """The agent on the host of that holder or user."""
    command: str
    """The command line of that holder, maybe cut off."""
    holders: int
    waiters: int
    note: str = ""
    """That holder's note, maybe cut off."""


def reason_of(raw: _library.HfReason) -> Reason:
    def known(number: int) -> int | None:
        return number if number >= 0 else None

    return Reason(
        kind=reason_kind(raw.kind),
        text=printable(raw.text),
        since=raw.since_ns / 1e9 if raw.since_ns >= 0 else None,
        closed=max(raw.closed_ns, 0) / 1e9,
        pid=known(raw.pid),
        uid=known(raw.uid),
        agent=printable(raw.agent),
        command=printable(raw.command),
        holders=raw.holders,
        waiters=raw.waiters,
        note=printable(raw.note),
    )


class Error(Exception):
    """Any failure of Holdfast. Each HF_E... code of holdfast.h has a subclass."""

    code: int = 0
    """The HF_E... code of the library."""
    reason: Reason | None = None
    """Why the lock was not to be had, or why the hold ended, if the library knows that."""


class NotAcquired(Error):
    """The lock was not to be had: WouldBlock or Timeout."""


class WouldBlock(NotAcquired):
    """HF_EBUSY: `wait=False`, and the lock is held, awaited or closed, or nobody answered within
    1 s."""

    code = -1


class Timeout(NotAcquired, TimeoutError):
    """HF_ETIMEDOUT: the timeout was over first."""

    code = -2


class Canceled(Error):
    """HF_ECANCELED: Lock.cancel() ended the wait."""

    code = -3


class LockLost(Error):
    """HF_ELOST: the hold has ended by its lease or limit, or by a break. `reason` says which. From
    Hold.check() also: the hold does not count now, but may count again."""

    code = -4


class NotHeld(Error):
    """HF_ENOTHELD: this hold was released."""

    code = -5


class AlreadyHeld(Error):
    """HF_EALREADY. This package does not cause it, because each hold has a handle of its own."""

    code = -6


class Deadlock(Error):
    """HF_EDEADLK. This package does not cause it, because it has no upgrades."""

    code = -7


class Forked(Error):
    """HF_EFORKED: the object belongs to the parent of this process."""

    code = -8


class NoAgent(Error, ConnectionError):
    """HF_ENOAGENT: no agent answers at the socket."""

    code = -9


class AccessDenied(Error, PermissionError):
    """HF_EACCES: the agent's configuration or its socket's permissions forbid it."""

    code = -10


class InvalidArgument(Error, ValueError):
    """HF_EINVAL: an argument is out of its range."""

    code = -11


class Closed(InvalidArgument):
    """The client is closed."""


class NameTooLong(Error, ValueError):
    """HF_ENAMETOOLONG: a lock name of more than 255 bytes."""

    code = -12


class Full(Error):
    """HF_EFULL: the agent has no room: a full table or disk, or no descriptors."""

    code = -13


class VersionMismatch(Error):
    """HF_EVERSION: library and agent have no version of the protocol in common."""

    code = -14


class ProtocolError(Error):
    """HF_EPROTO: the agent's answer is invalid."""

    code = -15


class OutOfMemory(Error, MemoryError):
    """HF_ENOMEM: no memory, or no file descriptor."""

    code = -16


class Stale(Error):
    """HF_ESTALE: the sequencer's hold is over."""

    code = -17


class Unknown(Error):
    """HF_EUNKNOWN: the answer cannot be found out now."""

    code = -18


class Unserved(Error):
    """HF_EUNSERVED: the agent has given this namespace up, and may serve it later."""

    code = -19


CLASSES: dict[int, type[Error]] = {
    cls.code: cls
    for cls in (
        WouldBlock, Timeout, Canceled, LockLost, NotHeld, AlreadyHeld, Deadlock, Forked, NoAgent,
        AccessDenied, InvalidArgument, NameTooLong, Full, VersionMismatch, ProtocolError,
        OutOfMemory, Stale, Unknown, Unserved,
    )
}  # fmt: skip


def failure(code: int, what: str, reason: Reason | None = None) -> Error:
    """The exception for a code. Its message is the library's sentence about the call that returned
    the code. That sentence has the name and the reason. If there is none, the message is the
    library's text for the code, with `what`, the object that the call was about, and the reason."""
    text = printable(code.text) if isinstance(code, _library.Failure) else ""
    if not text:
        text = f"{what}: {printable(_library.hf_strerror(code) or b'')}"
        if reason is not None and reason.text:
            text = f"{text}: {reason.text}"
    error = CLASSES.get(code, Error)(text)
    error.code = int(code)
    error.reason = reason
    return error


def check(code: int, what: str) -> None:
    if code < 0:
        raise failure(code, what)
