"""Locks and holds.

A handle of the library (hf_lock) has at most one hold, which belongs to all threads. To a Python
programmer a lock is something that threads and tasks share and that excludes them from each other.
So each hold has a handle of its own. A Lock keeps the handles that have no hold, and opens another
one when it has none left.

A handle is in one place at any time: in Lock._idle, or in Hold._handle or Hold._leaving of one
hold. Hold._drop() and Hold.release() take it out of Hold._handle, so only one of them gets it. They
release it, and put it into Hold._leaving. The next hold may have the handle only when no call of
this hold uses it any more, on any thread and in any signal handler. So Hold._call() counts these
calls, like Client._call() (see _calls.py).
"""

import asyncio
import ctypes
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _library
from ._calls import Calls
from ._errors import (
    Closed,
    Error,
    Forked,
    InvalidArgument,
    LockLost,
    NotHeld,
    Reason,
    Timeout,
    WouldBlock,
    check,
    failure,
    reason_of,
)
from ._wait import Wait

if TYPE_CHECKING:
    from ._client import Client


def check_seconds(seconds: float, what: str) -> None:
    if isinstance(seconds, (str, bytes)) or not hasattr(seconds, "__float__"):
        raise TypeError(
            f"{what}: expected a number of seconds, not {type(seconds).__name__} ({seconds!r})"
        )


def nanoseconds(seconds: float, what: str) -> int:
    """The duration in nanoseconds; infinity and very long durations become the longest one."""
    check_seconds(seconds, what)
    if not seconds >= 0:
        raise InvalidArgument(f"{what}: expected seconds, not {seconds}")
    if seconds > _library.INT64_MAX / 1e9 - 1:
        return _library.INT64_MAX
    return round(seconds * 1_000_000_000)


class Request:
    """The arguments of an acquire."""

    __slots__ = ("mode", "timeout_ns", "explain", "late")

    def __init__(
        self, shared: bool, timeout: float | None, wait: bool, explain: bool
    ) -> None:
        if timeout is not None:
            check_seconds(timeout, "timeout")
        if not wait and timeout is not None:
            raise InvalidArgument("wait=False and a timeout exclude each other")
        self.mode = _library.SHARED if shared else _library.EXCLUSIVE
        self.explain = explain
        # the error for the library's HF_EBUSY, which it also returns for a wait with timeout 0
        self.late: type[Error] = Timeout if wait else WouldBlock
        self.timeout_ns = 0
        if wait:
            # A negative timeout is no mistake: a deadline of the caller may have just passed. It
            # means a try.
            self.timeout_ns = (
                _library.FOREVER
                if timeout is None
                else nanoseconds(0 if timeout < 0 else timeout, "timeout")
            )


class Lock:
    """A named lock, which Client.lock() opens.

    Threads and tasks may share it: two acquires of one Lock exclude each other like those of two
    processes. So an acquire by a thread that already has the lock waits for itself.

    `with lock:` waits for an exclusive hold, and releases it at the end of the block.
    """

    def __init__(
        self, client: "Client", name: str, encoded: bytes, options: _library.HfLockOptions
    ) -> None:
        self._client = client
        self._name = name
        self._encoded = encoded
        self._options = options
        self._idle: list[int] = []
        self._waiting: dict[int, int] = {}  # the handles with a wait, as a set
        self._entered = threading.local()  # the holds of `with lock:` on each thread
        self._idle.append(self._open())

    @property
    def name(self) -> str:
        return self._name

    @property
    def client(self) -> "Client":
        return self._client

    def __repr__(self) -> str:
        return f"<holdfast.Lock {self._name!r}>"

    def acquire(
        self,
        *,
        shared: bool = False,
        timeout: float | None = None,
        wait: bool = True,
        explain: bool = True,
    ) -> "Hold":
        """Takes the lock, and returns the hold, which is a context manager. Keep it: a hold to
        which nothing refers any more is released.

        shared: with other shared holds beside it, instead of alone.
        timeout: in seconds; None waits for ever, 0 only tries.
        wait: False only tries, and raises WouldBlock instead of Timeout.
        explain: on WouldBlock and Timeout, ask the agent why, for the message and `reason`. That
        takes two messages, and up to 11 s if the agent does not answer.

        Raises Timeout, WouldBlock, Canceled, Full. NoAgent and Unserved: a wait goes on until an
        agent is back, so only a try raises these, and an acquire that has to open one more handle,
        because other acquires of this Lock use those that it has.

        Any thread may call this. In the main thread a signal interrupts the wait: its handler
        runs, and if that raises (KeyboardInterrupt), the wait ends without a hold. For this the
        wait runs on another thread.
        """
        request = Request(shared, timeout, wait, explain)
        hold = Hold(self, shared)
        in_main = threading.current_thread() is threading.main_thread()
        taken = False
        try:
            if not in_main or request.timeout_ns == 0:
                hold._take(request)
                taken = True
            else:
                taken = hold._take_now(request)
        except BaseException:
            # This also drops a hold that was taken just before a KeyboardInterrupt, whose traceback
            # would keep the hold.
            hold._drop()
            raise
        if not taken:
            Wait(hold, request).join()
        return hold

    def acquire_async(
        self,
        *,
        shared: bool = False,
        timeout: float | None = None,
        wait: bool = True,
        explain: bool = True,
    ) -> "AsyncAcquire":
        """The same for asyncio: `async with lock.acquire_async() as hold:`, or `hold = await
        lock.acquire_async()`. Arguments and exceptions are those of acquire(). The wait runs on a
        thread of its own. If the task is cancelled, the wait ends and no hold is left."""
        return AsyncAcquire(self, shared, Request(shared, timeout, wait, explain))

    def cancel(self) -> None:
        """Ends the waits for this Lock that have begun, of other threads and of tasks: they raise
        Canceled."""
        for handle in list(self._waiting):
            check(self._client._call(_library.hf_cancel, handle), self._what)

    def why(self) -> Reason:
        """Asks the agent why the lock is not to be had now. The answer may be outdated when it
        arrives."""
        handle = self._handle_take()
        try:
            return self._why(handle)
        finally:
            self._idle.append(handle)

    def __enter__(self) -> "Hold":
        hold = self.acquire()
        if not hasattr(self._entered, "holds"):
            self._entered.holds = []
        self._entered.holds.append(hold)
        return hold

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._entered.holds.pop().__exit__(kind, error, traceback)

    def __del__(self) -> None:
        try:
            for handle in self._idle:
                self._client._handles.pop(handle, None)
                self._client._call(_library.hf_close, handle)
        except (AttributeError, Closed):
            pass  # it was never opened, or the client has closed it

    @property
    def _what(self) -> str:
        return f"lock {self._name!r}"

    def _open(self) -> int:
        handle = ctypes.c_void_p()
        client = self._client
        code = client._call(
            _library.hf_open, client._pointer, self._encoded, self._options, handle
        )
        check(code, self._what)
        assert handle.value is not None
        client._handles[handle.value] = None
        return handle.value

    def _handle_take(self) -> int:
        try:
            return self._idle.pop()
        except IndexError:
            return self._open()

    def _why(self, handle: int) -> Reason:
        raw = _library.HfReason(size=ctypes.sizeof(_library.HfReason))
        check(self._client._call(_library.hf_why, handle, raw), self._what)
        return reason_of(raw)

    def _failure(self, code: int, handle: int, ask: bool) -> Error:
        """The exception for a code, with the library's reason."""
        reason = None
        if ask:
            try:
                reason = self._why(handle)
            except Error:
                pass  # the failure itself is what matters
        return failure(code, self._what, reason)


class Hold:
    """One possession of a lock. Lock.acquire() makes it.

    As a context manager it releases the hold at the end of the block. If the hold was lost
    meanwhile, the end of the block raises LockLost; if the block raises something else, that goes
    on, with a note about the loss.

    Any thread may use a hold, and release it. Once one thread has begun to release it, the calls of
    all threads raise NotHeld.
    """

    token: int
    """The fencing token, which rises from each exclusive hold to the next for ever. Give it to
    the resource that you write to, and let the resource refuse lower tokens. Store 64 bits."""
    deadline_ns: int
    """CLOCK_BOOTTIME in nanoseconds: the deadline when the hold began. Each renewal of the lease
    moves the deadline on, but this stays the same."""

    def __init__(self, lock: Lock, shared: bool) -> None:
        self.lock = lock
        self.shared = shared
        self.token = 0
        self.deadline_ns = 0
        self._handle: list[int] = []  # the handle, until the hold is released
        self._leaving: list[int] = []  # the handle after that, while calls still use it
        self._calls = Calls()

    def __repr__(self) -> str:
        mode = "shared" if self.shared else "exclusive"
        return f"<holdfast.Hold {self.lock.name!r} {mode}, token {self.token}>"

    def remaining_ns(self) -> int:
        """For how many nanoseconds from now the hold still counts, without the lease's next
        renewal. 0: it does not count; it was released or lost, or is in jeopardy, or this is a
        forked child. Reads the clock, and waits for nothing."""
        try:
            return int(self._call(self._remaining))
        except (Closed, NotHeld):
            return 0

    def remaining(self) -> float:
        """remaining_ns() in seconds."""
        return self.remaining_ns() / 1e9

    def check(self) -> None:
        """Raises LockLost, with the reason, if the hold does not count now. Call it before a step
        that must not come late. A process that is stopped after this call does not notice that:
        the resource has to check the token."""
        self._call(self._check)

    def _check(self, handle: int) -> None:
        if self.lock._client._call(_library.hf_remaining_ns, handle) == 0:
            raise failure(LockLost.code, self.lock._what, self.lock._why(handle))

    def progress(self) -> None:
        """Reports progress: the hold goes on for `max_stall` from now. Raises LockLost."""
        self._call(self._ask, _library.hf_progress)

    def downgrade(self) -> None:
        """Changes an exclusive hold to a shared one; no other exclusive hold comes in between.
        Raises LockLost, NoAgent, Full."""
        self._call(self._ask, _library.hf_downgrade)
        self.shared = True

    def sequencer(self) -> str:
        """The hold's sequencer, a word of [A-Za-z0-9._~%:/-]: the lock's name, the token and more,
        for Client.check_sequencer(). Raises LockLost."""
        text = ctypes.create_string_buffer(_library.SEQUENCER_MAX)
        self._call(self._ask, _library.hf_sequencer, text, len(text))
        return text.value.decode("ascii")

    def release(self) -> None:
        """Ends the hold. The lock goes to the waiter that has waited longest.

        Raises LockLost if the hold had ended before, and NotHeld if it was released before, or if
        another thread is releasing it. In these cases nothing is left to release. (The absence of
        an exception is less certain: see hf_release in holdfast.h.)"""
        handle = self._take_out()
        try:
            code = self.lock._client._call(_library.hf_release, handle)
        except BaseException:
            self._handle.append(handle)  # Closed: each further call says so, too
            raise
        if code == Forked.code:  # a handle of the parent is of no use to a forked child
            self._handle.append(handle)
            raise self.lock._failure(code, handle, False)
        error = None
        if code < 0:
            error = self.lock._failure(code, handle, code == LockLost.code)
        self._leaving.append(handle)
        self._give_back()
        if error is not None:
            raise error

    def __enter__(self) -> "Hold":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._handle:
            return  # the block has released it
        if error is None:
            self.release()
            return
        try:
            self.release()
        except Error as late:
            error.add_note(f"holdfast: {late}")

    def __del__(self) -> None:
        if getattr(self, "_handle", None) and self._drop():
            warnings.warn(f"{self!r} was not released", ResourceWarning, source=self)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls the function with the handle, which does not go to another hold meanwhile."""
        return self._calls.run(self._give_back, self._call_held, function, *arguments)

    def _call_held(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(self._held(), *arguments)

    def _ask(self, handle: int, function: Callable[..., Any], *arguments: Any) -> None:
        """Calls the library, and raises its error."""
        code = self.lock._client._call(function, handle, *arguments)
        if code < 0:
            raise self.lock._failure(code, handle, code == LockLost.code)

    def _remaining(self, handle: int) -> int:
        return int(self.lock._client._call(_library.hf_remaining_ns, handle))

    def _held(self) -> int:
        for handle in self._handle:
            return handle
        raise NotHeld(f"{self.lock._what}: this hold was released")

    def _take_out(self) -> int:
        """Takes the handle out of the hold; one thread gets it."""
        try:
            return self._handle.pop()
        except IndexError:
            raise NotHeld(f"{self.lock._what}: this hold was released") from None

    def _give_back(self) -> None:
        """Gives a handle that was released back to the lock, if no call uses it any more."""
        if self._calls.any():
            return
        try:
            handle = self._leaving.pop()
        except IndexError:
            return
        self.lock._client._handles[handle] = None
        self.lock._idle.append(handle)

    def _drop(self) -> bool:
        """Releases what the handle has, if it has anything, and tells nobody of a loss. Returns
        whether there was a hold."""
        try:
            handle = self._handle.pop()
        except IndexError:
            return False
        try:
            code = self.lock._client._call(_library.hf_release, handle)
        except Closed:
            self._handle.append(handle)  # the client has released it
            return False
        self._leaving.append(handle)
        self._give_back()
        return bool(code == 0)

    def _take(self, request: Request) -> None:
        """Takes the lock, and waits on this thread. If it fails, there is no hold, but the caller
        has to _drop() the handle."""
        code, handle = self._acquire(request, request.timeout_ns)
        if code == 0:
            return
        if self.lock._client.closed:
            raise Closed("the client was closed during the wait")
        late = code in (WouldBlock.code, Timeout.code)
        if late:
            code = request.late.code
        raise self.lock._failure(code, handle, late and request.explain)

    def _take_now(self, request: Request) -> bool:
        """Takes the lock if that needs no wait. Returns whether it did. It does not try
        (timeout_ns 0), because a try waits for the agent for up to 1 s. If it fails: see
        _take()."""
        code, handle = self._acquire(request, 1)
        if code < 0 and code != Timeout.code:
            raise self.lock._failure(code, handle, False)
        return code == 0

    def _acquire(self, request: Request, timeout_ns: int) -> tuple[int, int]:
        """hf_acquire(). Returns its result, and the handle."""
        lock = self.lock
        if not self._handle:
            self._handle.append(lock._handle_take())
        handle = self._handle[0]
        raw = _library.HfHold()
        lock._waiting[handle] = handle
        try:
            code = lock._client._call(
                _library.hf_acquire, handle, request.mode, timeout_ns, raw
            )
        finally:
            lock._waiting.pop(handle, None)
        if code == 0:
            self.token = raw.token
            self.deadline_ns = raw.deadline_ns
            lock._client._handles[handle] = weakref.ref(self)
        return code, handle

    def _cancel(self) -> None:
        for handle in self._handle:
            self.lock._client._call(_library.hf_cancel, handle)


class AsyncAcquire:
    """What Lock.acquire_async() returns: await it for the hold, or use it with `async with`."""

    def __init__(self, lock: Lock, shared: bool, request: Request) -> None:
        self._lock = lock
        self._shared = shared
        self._request = request
        self._hold: Hold | None = None

    def __await__(self) -> Generator[Any, None, Hold]:
        return self._acquire().__await__()

    async def __aenter__(self) -> Hold:
        self._hold = await self._acquire()
        return self._hold

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        hold, self._hold = self._hold, None
        assert hold is not None
        hold.__exit__(kind, error, traceback)

    async def _acquire(self) -> Hold:
        loop = asyncio.get_running_loop()
        finished = asyncio.Event()
        hold = Hold(self._lock, self._shared)

        def tell() -> None:
            try:
                loop.call_soon_threadsafe(finished.set)
            except RuntimeError:
                hold._drop()  # the loop is closed, so nobody waits for the hold any more

        wait = Wait(hold, self._request, tell)
        try:
            await finished.wait()
        except GeneratorExit:  # the coroutine is thrown away, and may not await anything
            wait.abandon()
            raise
        except BaseException:
            wait.abandon()
            await finished.wait()
            raise
        wait.result()
        return hold


class Holds(Sequence[Hold]):
    """The holds of acquire_all(), in the order of its locks. As a context manager it releases all
    of them, and raises LockLost if one was lost."""

    def __init__(self, holds: Sequence[Hold]) -> None:
        self._holds = tuple(holds)

    def __len__(self) -> int:
        return len(self._holds)

    def __getitem__(self, index: Any) -> Any:
        return self._holds[index]

    def __iter__(self) -> Iterator[Hold]:
        return iter(self._holds)

    def release(self) -> None:
        """Releases all of them. If some were lost, raises LockLost for the first of these."""
        first: Error | None = None
        for hold in self._holds:
            try:
                hold.release()
            except Error as error:
                first = first or error
        if first is not None:
            raise first

    def __enter__(self) -> "Holds":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.release()
            return
        try:
            self.release()
        except Error as late:
            error.add_note(f"holdfast: {late}")


def acquire_all(
    *locks: Lock,
    shared: bool = False,
    timeout: float | None = None,
    wait: bool = True,
    explain: bool = True,
) -> Holds:
    """Takes all of the locks or none. The other arguments and the exceptions are those of
    Lock.acquire(); the timeout is for all of them together.

    It takes them in byte order of their names, as hf_acquire_all() and `holdfast lock` do, so two
    callers never wait for each other. Raises InvalidArgument, a ValueError, if a name is repeated
    or there is no lock, and TypeError if an argument is no Lock.
    """
    for lock in locks:
        if not isinstance(lock, Lock):
            raise TypeError(
                f"acquire_all: expected each lock of Client.lock() as an argument of its own, not "
                f"{type(lock).__name__} ({lock!r})"
            )
    if not locks:
        raise InvalidArgument("acquire_all: found no lock, expected at least one")
    if len({lock.name for lock in locks}) != len(locks):
        raise InvalidArgument("a lock's name is repeated")
    end = None if timeout is None else time.monotonic() + timeout
    taken: dict[str, Hold] = {}
    try:
        for lock in sorted(locks, key=lambda lock: lock._encoded):
            left = None if end is None else max(end - time.monotonic(), 0.0)
            taken[lock.name] = lock.acquire(
                shared=shared, timeout=left, wait=wait, explain=explain
            )
        for hold in taken.values():
            hold.check()  # it may have ended during the wait for those after it
    except BaseException:
        for hold in reversed(taken.values()):
            hold._drop()
        raise
    return Holds([taken[lock.name] for lock in locks])
