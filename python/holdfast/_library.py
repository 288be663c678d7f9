"""The structs and functions of libholdfast that this package uses, by ctypes.

The test tests/python/test_layout.py compares each struct and each constant here with holdfast.h,
and holdfast.h has the meaning of every member. Each struct has the C name in CamelCase.
"""

import ctypes
import threading
from ctypes import (
    c_char,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any

SONAME = "libholdfast.so.0"

EXCLUSIVE = 0
SHARED = 1
BARGING = 2
SEQUENCER_MAX = 1024
FOREVER = -1
NO_LOCK_DELAY = -1
INT64_MAX = 2**63 - 1


class HfOptions(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("socket", c_char_p),
        ("connect_timeout_ns", c_int64),
        ("why", c_void_p),
        ("why_size", c_size_t),
        ("command", c_char_p),
    ]


class HfLockOptions(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("flags", c_uint32),
        ("permits", c_uint32),
        ("lock_delay_ns", c_int64),
        ("lease_ns", c_int64),
        ("max_stall_ns", c_int64),
        ("note", c_char_p),
    ]


class HfHold(ctypes.Structure):
    _fields_ = [
        ("token", c_uint64),
        ("deadline_ns", c_int64),
        ("reserved", c_uint64 * 6),
    ]


class HfEvent(ctypes.Structure):
    _fields_ = [
        ("kind", c_int),
        ("lock", c_void_p),
        ("token", c_uint64),
        ("name", c_char * 256),
        ("why", c_int),
        ("error", c_int32),
        ("reserved", c_uint64 * 5),
    ]


class HfReason(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("kind", c_int),
        ("reserved", c_uint32),
        ("since_ns", c_int64),
        ("closed_ns", c_int64),
        ("pid", c_int64),
        ("uid", c_int64),
        ("holders", c_uint64),
        ("waiters", c_uint64),
        ("agent", c_char * 40),
        ("command", c_char * 512),
        ("text", c_char * 1024),
        ("note", c_char * 264),
    ]


try:
    # A call through the first object lets other threads run meanwhile. A call through the second
    # one does not: that is cheaper, and is only for calls that never wait.
    _waiting = ctypes.CDLL(SONAME)
    _quick = ctypes.PyDLL(SONAME)
except OSError as _error:
    raise ImportError(f"{_error} (on Debian, the package libholdfast0 has this library)") from None


class Failure(int):
    """A negative code, with the library's sentence about the call that returned it."""

    text = b""


class _PerThread(threading.local):
    failures = 0  # how many calls of this thread have failed


_thread = _PerThread()


def _explained(result: int, function: Any, arguments: Any) -> int:
    """Runs in the thread of each call, right after the call: the library has one text for each
    thread."""
    if result >= 0:
        return result
    failed = Failure(result)
    failed.text = hf_error_text(None) or b""
    _thread.failures += 1
    return failed


def call(function: Any, *arguments: Any) -> Any:
    """Calls a function of the library. If it fails, the result is a Failure."""
    before = _thread.failures
    result = function(*arguments)
    if isinstance(result, Failure) and _thread.failures != before + 1:
        # A signal handler has called the library meanwhile, so the text may be about that call.
        result.text = b""
    return result


def _function(library: Any, name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(library, name)
    function.restype = result
    function.argtypes = arguments
    if result is c_int:
        function.errcheck = _explained
    return function


_out = ctypes.POINTER(c_void_p)

hf_connect = _function(_waiting, "hf_connect", c_int, ctypes.POINTER(HfOptions), _out)
hf_disconnect = _function(_waiting, "hf_disconnect", None, c_void_p)
hf_open = _function(
    _waiting, "hf_open", c_int, c_void_p, c_char_p, ctypes.POINTER(HfLockOptions), _out
)
hf_close = _function(_waiting, "hf_close", None, c_void_p)
hf_acquire = _function(
    _waiting, "hf_acquire", c_int, c_void_p, c_int, c_int64, ctypes.POINTER(HfHold)
)
hf_release = _function(_waiting, "hf_release", c_int, c_void_p)
hf_downgrade = _function(_waiting, "hf_downgrade", c_int, c_void_p)
hf_progress = _function(_quick, "hf_progress", c_int, c_void_p)
hf_cancel = _function(_waiting, "hf_cancel", c_int, c_void_p)
hf_why = _function(_waiting, "hf_why", c_int, c_void_p, ctypes.POINTER(HfReason))
hf_remaining_ns = _function(_quick, "hf_remaining_ns", c_int64, c_void_p)
hf_sequencer = _function(_waiting, "hf_sequencer", c_int, c_void_p, c_char_p, c_size_t)
hf_check_sequencer = _function(_waiting, "hf_check_sequencer", c_int, c_void_p, c_char_p)
hf_check_sequencer_local = _function(
    _waiting, "hf_check_sequencer_local", c_int, c_void_p, c_char_p
)
hf_watch = _function(_waiting, "hf_watch", c_int, c_void_p, c_char_p)
hf_unwatch = _function(_waiting, "hf_unwatch", c_int, c_void_p, c_char_p)
hf_event_fd = _function(_waiting, "hf_event_fd", c_int, c_void_p)
hf_next_event = _function(_waiting, "hf_next_event", c_int, c_void_p, ctypes.POINTER(HfEvent))
hf_error_text = _function(_quick, "hf_error_text", c_char_p, c_void_p)
hf_strerror = _function(_quick, "hf_strerror", c_char_p, c_int)
hf_version = _function(_quick, "hf_version", c_char_p)
