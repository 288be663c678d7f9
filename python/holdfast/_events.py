"""Events of a client: its holds, and locks that it watches."""

import dataclasses
import enum
import select
import socket
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from . import _library
from ._errors import Closed, ReasonKind, printable, reason_kind

if TYPE_CHECKING:
    from ._client import Client
    from ._lock import Hold


class EventKind(enum.IntEnum):
    GRANTED = 1
    """An acquire that had to wait has got the lock."""
    JEOPARDY = 2
    """The hold is past its deadline and does not count now, but it can count again."""
    SAFE = 3
    """A hold in jeopardy counts again."""
    LOST = 4
    """The hold is over; `why` says why. Leave the block, or call Hold.release()."""
    CHANGED = 5
    """A lock under a watched prefix has changed."""
    FAILED = 6
    """An event of hf_acquire_start(), which this package does not call."""


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    kind: EventKind | int
    name: str
    """The name of the lock."""
    token: int
    """The token of the hold; 0 for CHANGED."""
    hold: "Hold | None"
    """The hold that the event is about, if the program still has it. GRANTED may come before the
    acquire has returned the hold."""
    why: ReasonKind | int
    """Of LOST: why the hold ended."""


def event_of(raw: _library.HfEvent, hold: "Hold | None") -> Event:
    try:
        kind: EventKind | int = EventKind(raw.kind)
    except ValueError:  # of a later version of the library
        kind = raw.kind
    if hold is not None and hold.token != raw.token:
        hold = None  # the handle has another hold by now
    return Event(kind, printable(raw.name), raw.token, hold, reason_kind(raw.why))


class Listener:
    """A thread that calls a function with each event of a client."""

    def __init__(self, client: "Client", callback: Callable[[Event], object]) -> None:
        self._client = client
        self._callback = callback
        self._fd = client.fileno()
        self._stop, self._stopped = socket.socketpair()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="holdfast events", daemon=True)
        client._listeners.append(self)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread, and waits for that unless the thread itself calls this."""
        if self._closed:
            return
        self._closed = True
        try:
            self._stop.send(b"x")
        except OSError:
            pass  # the thread has ended
        if self._thread is not threading.current_thread():
            self._thread.join()

    def __enter__(self) -> "Listener":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        poll.register(self._stopped, select.POLLIN)
        try:
            while not self._closed:
                poll.poll()
                self._drain()
        except Closed:
            pass
        finally:
            self._client._listeners.remove(self)
            self._stop.close()
            self._stopped.close()

    def _drain(self) -> None:
        while not self._closed and (event := self._client.next_event()) is not None:
            try:
                self._callback(event)
            except Exception:
                threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), self._thread)))
