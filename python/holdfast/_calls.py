"""The running calls of an object, so that nobody frees what they use.

Each thread changes only its own count, so there is no mutex here that a fork or a signal handler
could leave locked. A call is counted before it looks at what it uses. The code that frees the
object first takes it away, and then looks at the counts. So either the call finds no object, or
that code sees the call.

A signal handler may raise an exception between two steps of Python. The interpreter runs handlers
only when a function begins or has ended, or when a loop jumps back. So Calls.run() calls no
function between the count and the `try`, and none in the `finally` before the count is taken back.
(A context manager would call one.)
"""

import threading
from collections.abc import Callable
from typing import Any


class Calls:
    """Counts the running calls of each thread."""

    __slots__ = ("_running",)

    def __init__(self) -> None:
        self._running: dict[int, int] = {}  # by thread, for each one that has a running call

    def run(
        self, ended: Callable[[], object], function: Callable[..., Any], *arguments: Any
    ) -> Any:
        """Calls the function, and counts that call. Then calls ended()."""
        me = threading.get_ident()
        self._running[me] = self._running.get(me, 0) + 1
        try:
            return function(*arguments)
        finally:
            left = self._running[me] - 1
            if left > 0:
                self._running[me] = left
            else:
                del self._running[me]
            ended()

    def any(self) -> bool:
        """Returns whether some thread has a running call."""
        return bool(self._running)

    def here(self) -> bool:
        """Returns whether this thread is in a call, or a signal handler has interrupted one."""
        return threading.get_ident() in self._running

    def elsewhere(self) -> bool:
        """Returns whether another thread has a running call."""
        me = threading.get_ident()
        return any(thread != me for thread in list(self._running))
