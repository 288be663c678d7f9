"""A wait for a lock that its caller can abandon.

The library waits inside hf_acquire(), which neither a Python signal handler nor an event loop can
interrupt. So such a wait runs on a thread of its own. If the caller abandons it, hf_cancel() ends
it; and if the lock comes all the same, that thread releases it. So no hold is left behind.
"""

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ._errors import Error

if TYPE_CHECKING:
    from ._lock import Hold, Request

_CANCEL_PAUSE = 0.005


class Wait:
    def __init__(
        self, hold: "Hold", request: "Request", finished: Callable[[], object] | None = None
    ) -> None:
        """Starts the wait. At its end the thread calls `finished`."""
        self.error: BaseException | None = None
        self._hold = hold
        self._request = request
        self._call_finished = finished
        self._mutex = threading.Lock()  # for the next two
        self._is_finished = False
        self._is_abandoned = False
        self._finished = threading.Event()
        threading.Thread(
            target=self._run, name=f"holdfast wait {hold.lock.name}", daemon=True
        ).start()

    def join(self) -> None:
        """Waits for the end, and raises what the acquire raised. An exception of a signal handler
        abandons the wait."""
        try:
            self._finished.wait()
        except BaseException:
            self.abandon()
            self._finished.wait()
            raise
        self.result()

    def result(self) -> None:
        """Raises what the acquire raised. Only after the end."""
        if self.error is not None:
            raise self.error

    def abandon(self) -> None:
        """Ends the wait without a hold. Does not wait for its end."""
        with self._mutex:
            self._is_abandoned = True
            finished = self._is_finished
        if finished:
            self._hold._drop()
            return
        # One hf_cancel() is not enough: it does not end a wait that is just about to begin.
        threading.Thread(target=self._cancel, name="holdfast cancel", daemon=True).start()

    def _run(self) -> None:
        try:
            self._hold._take(self._request)
        except BaseException as error:
            self.error = error
        with self._mutex:
            if self.error is not None:
                # From here on another wait may use the handle, and _cancel() must not end that
                # wait.
                self._hold._drop()
            self._is_finished = True
            abandoned = self._is_abandoned
        if abandoned:
            self._hold._drop()
        self._finished.set()
        if self._call_finished is not None:
            self._call_finished()

    def _cancel(self) -> None:
        while True:
            with self._mutex:
                # The handle belongs to this wait only until its end.
                if self._is_finished:
                    return
                try:
                    self._hold._cancel()
                except Error:
                    return
            time.sleep(_CANCEL_PAUSE)
