"""The connection to this host's agent.

The library frees a client in hf_disconnect(), and no other call may use the client from then on.
So each call goes through Client._call(), which counts the running calls (see _calls.py), and
Client.close() waits until no other thread has one.

A signal handler may close the client between two steps of a call of its own thread, and that call
goes on afterwards. So the end of that call frees the client.
"""

import asyncio
import ctypes
import os
import threading
import time
import weakref
from collections.abc import AsyncGenerator, Callable
from types import TracebackType
from typing import Any

from . import _library
from ._calls import Calls
from ._errors import Closed, InvalidArgument, check, failure
from ._events import Event, Listener, event_of
from ._lock import Hold, Lock, nanoseconds

_CANCEL_PAUSE = 0.002


def text_bytes(text: str, what: str) -> bytes:
    """The text as a C string."""
    if not isinstance(text, str):
        raise TypeError(f"{what}: expected a str, not {type(text).__name__} ({text!r})")
    try:
        encoded = text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidArgument(f"{what} {text!r} is not valid UTF-8") from None
    if b"\0" in encoded:
        raise InvalidArgument(f"{what} {text!r} has a zero byte")
    return encoded


class Client:
    """A connection to this host's agent.

    socket: the path of the agent's socket. Default: $HOLDFAST_SOCKET if it is set, else the
    system's agent, else one that was started with --dev.
    connect_timeout: in seconds; None waits for ever. A signal does not interrupt this wait.
    command: what other users see as this process's command, as in `holdfast ls`; at most 160 bytes
    of it. Default: the command line of this process.

    Raises NoAgent, AccessDenied, Full, VersionMismatch, ProtocolError, InvalidArgument.

    Many threads may use a client at once. It is a context manager: the end of the block calls
    close(). After os.fork() the child owns nothing: each call on an object of the parent raises
    Forked, except close(), which frees the child's memory. The child makes a client of its own.
    """

    def __init__(
        self,
        socket: str | os.PathLike[str] | None = None,
        *,
        connect_timeout: float | None = 5.0,
        command: str | None = None,
    ) -> None:
        self._pointer: int | None = None
        self._pid = os.getpid()
        self._calls = Calls()
        # each open handle (hf_lock) with its present hold
        self._handles: dict[int, weakref.ref[Hold] | None] = {}
        self._listeners: list[Listener] = []
        self._wakers: list[Callable[[], object]] = []  # each wakes an events() that waits
        # the thread whose running call has to free the client at its end, and the client
        self._closing: tuple[int, int] | None = None

        path = None if socket is None else os.fsencode(os.fspath(socket))
        if path is not None and b"\0" in path:
            raise InvalidArgument(f"the socket {socket!r} has a zero byte")
        timeout_ns = _library.FOREVER
        if connect_timeout is not None:
            # the library takes 0 for its default of 5 s
            timeout_ns = max(nanoseconds(connect_timeout, "connect_timeout"), 1)
        options = _library.HfOptions(
            size=ctypes.sizeof(_library.HfOptions),
            socket=path,
            connect_timeout_ns=timeout_ns,
            command=None if command is None else text_bytes(command, "the command"),
        )
        pointer = ctypes.c_void_p()
        code = _library.call(_library.hf_connect, options, pointer)
        if code < 0:
            what = "connect" if path is None else f"connect to {os.fsdecode(path)!r}"
            raise failure(code, what)
        self._pointer = pointer.value

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls the library. The client and its handles are not freed meanwhile."""
        return self._calls.run(self._call_ended, self._call_open, function, *arguments)

    def _call_open(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if self._pointer is None:
            raise Closed("the client is closed")
        return _library.call(function, *arguments)

    def _call_ended(self) -> None:
        closing = self._closing
        if closing is not None and closing[0] == threading.get_ident() and not self._calls.here():
            self._disconnect(closing[1])

    def _disconnect(self, pointer: int) -> None:
        """Frees the client. No call of any thread uses it any more."""
        self._closing = None
        self._handles.clear()
        _library.hf_disconnect(pointer)

    def close(self) -> None:
        """Releases all holds and ends the connection. Waits of other threads end with Closed. A
        second close() has no effect."""
        pointer, self._pointer = self._pointer, None
        if pointer is None:
            return
        if os.getpid() != self._pid:
            _library.hf_disconnect(pointer)  # in a forked child it only frees memory
            return
        for listener in list(self._listeners):
            listener.close()
        for wake in list(self._wakers):
            wake()
        while self._calls.elsewhere():
            for handle in list(self._handles):
                _library.hf_cancel(handle)
            time.sleep(_CANCEL_PAUSE)
        if self._calls.here():
            # A signal handler of this thread calls close(), and the interrupted call goes on
            # afterwards. So the memory must stay until its end.
            for handle in list(self._handles):
                _library.hf_release(handle)
            self._closing = (threading.get_ident(), pointer)
            return
        self._disconnect(pointer)

    @property
    def closed(self) -> bool:
        return self._pointer is None

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_pointer", None) is not None:
            self.close()

    def lock(
        self,
        name: str,
        *,
        lock_delay: float | None = None,
        lease: float | None = None,
        max_stall: float | None = None,
        barging: bool = False,
        note: str | None = None,
    ) -> Lock:
        """Opens the lock of that name. Durations are in seconds.

        name: 1 to 255 bytes of UTF-8 without control characters.
        lock_delay: for how long the lock stays closed if this process vanishes while it holds
        (default 1 s, at most 60 s; 0: not at all).
        lease: the time from a hold's beginning until it ends by itself (default: no limit; at
        least 1 ms).
        max_stall: a hold ends if Hold.progress() has not been called for this time (default: no
        limit; at least 1 ms).
        barging: faster under contention, but the handle may overtake those that wait.
        note: for what the lock is held; other users see it beside this process's command, as in
        `holdfast show`. At most 256 bytes.

        Raises InvalidArgument, NameTooLong, AccessDenied, Full, NoAgent, Unserved.
        """
        options = _library.HfLockOptions(size=ctypes.sizeof(_library.HfLockOptions))
        if barging:
            options.flags = _library.BARGING
        if lock_delay is not None:
            options.lock_delay_ns = (
                nanoseconds(lock_delay, "lock_delay") or _library.NO_LOCK_DELAY
            )
        for key, limit in (("lease", lease), ("max_stall", max_stall)):
            if limit is not None:
                # the library takes 0 for no limit; so 0 becomes 1 ns, which the library refuses
                setattr(options, f"{key}_ns", max(nanoseconds(limit, key), 1))
        if note is not None:
            options.note = text_bytes(note, "the note")
        return Lock(self, name, text_bytes(name, "the name"), options)

    def check_sequencer(self, sequencer: str) -> None:
        """Asks the agent whether the sequencer's hold is held now, and returns if it is.

        Raises Stale: it is not. Unknown: the agent cannot find that out now. InvalidArgument: the
        text is not a sequencer of this cell. The answer may be outdated when it arrives, so a
        resource that must never accept an old holder has to remember the highest token that it
        has accepted, and to refuse lower ones.
        """
        text = text_bytes(sequencer, "the sequencer")
        check(self._call(_library.hf_check_sequencer, self._pointer, text), repr(sequencer))

    def check_sequencer_local(self, sequencer: str) -> None:
        """Raises Stale if this host has seen a higher token of that lock. Otherwise returns, which
        does not mean that the hold counts. The first call for a namespace asks the agent."""
        text = text_bytes(sequencer, "the sequencer")
        check(self._call(_library.hf_check_sequencer_local, self._pointer, text), repr(sequencer))

    def watch(self, prefix: str = "") -> None:
        """From now on there is an event CHANGED whenever a lock changes whose name begins with the
        prefix."""
        text = text_bytes(prefix, "the prefix")
        check(self._call(_library.hf_watch, self._pointer, text), f"watch {prefix!r}")

    def unwatch(self, prefix: str = "") -> None:
        """Ends the watch() of exactly that prefix."""
        text = text_bytes(prefix, "the prefix")
        check(self._call(_library.hf_unwatch, self._pointer, text), f"unwatch {prefix!r}")

    def fileno(self) -> int:
        """A descriptor that polls readable when next_event() may have an event. It belongs to the
        client: neither read nor close it. The first call of fileno() or next_event() switches the
        events on; there are no earlier ones."""
        fd = self._call(_library.hf_event_fd, self._pointer)
        check(fd, "events")
        return int(fd)

    def next_event(self) -> Event | None:
        """Takes the next event; None if there is none now. Never waits."""
        raw = _library.HfEvent()
        code = self._call(_library.hf_next_event, self._pointer, raw)
        check(code, "events")
        if code == 0:
            return None
        reference = self._handles.get(raw.lock) if raw.lock else None
        return event_of(raw, reference() if reference is not None else None)

    def listen(self, callback: Callable[[Event], object]) -> Listener:
        """Calls the function with each event, on a thread that this call starts. Listener.close()
        or the client's close() ends that. An exception of the function goes to
        threading.excepthook, and the next event follows. Use only one of listen(), events() and
        next_event(): each event comes once."""
        return Listener(self, callback)

    async def events(self) -> AsyncGenerator[Event, None]:
        """The events, for `async for`. There is no thread. When the client is closed, the loop
        ends with Closed."""
        loop = asyncio.get_running_loop()
        fd = self.fileno()
        ready = asyncio.Event()

        def on_readable() -> None:
            loop.remove_reader(fd)  # else the loop would spin until the event is taken
            ready.set()

        def on_close() -> None:
            try:
                loop.call_soon_threadsafe(ready.set)
            except RuntimeError:
                pass  # the loop is closed, so nobody waits any more

        self._wakers.append(on_close)
        try:
            while True:
                ready.clear()
                while (event := self.next_event()) is not None:
                    yield event
                loop.add_reader(fd, on_readable)
                await ready.wait()
        finally:
            self._wakers.remove(on_close)
            loop.remove_reader(fd)
