"""What the tests of the Python package share: an agent of their own, and other processes.

The environment: HOLDFAST_BIN_DIR has holdfastd and holdfast. PYTHONPATH and LD_LIBRARY_PATH lead to
the package and to libholdfast.so.0.
"""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections.abc import Callable

import holdfast

BIN_DIR = os.environ["HOLDFAST_BIN_DIR"]
GUARD_S = 60.0  # a guard against hanging, and no limit on how soon anything comes
PR_SET_PDEATHSIG = 1


def die_with_the_test() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def as_an_agent() -> None:
    """As in the agent's systemd unit, so that other work on a busy machine does not cost a lease.
    Without the right to do so, the agent runs with the test's priority."""
    die_with_the_test()
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -10)
    except PermissionError:
        pass


def wait_until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + GUARD_S
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"did not come: {what}")
        time.sleep(0.01)


class Agent:
    """An agent in a new folder. HOLDFAST_SOCKET names its socket."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="holdfast-python-")
        self.state = os.path.join(self.folder, "state")
        self.log = open(os.path.join(self.folder, "log"), "w+b")
        os.environ["HOLDFAST_SOCKET"] = os.path.join(self.state, "agent.sock")
        self.process = subprocess.Popen(
            [os.path.join(BIN_DIR, "holdfastd"), "--dev", "--state-dir", self.state],
            stderr=self.log,
            stdout=self.log,
            preexec_fn=as_an_agent,
        )
        try:
            holdfast.Client(connect_timeout=GUARD_S).close()
        except holdfast.Error:
            self.log.seek(0)
            sys.stderr.buffer.write(self.log.read())
            self.stop()
            raise

    def stop(self) -> None:
        # A stopped agent leaves its regions for the next agent, but here no other agent follows.
        with open(f"/proc/{self.process.pid}/maps") as maps:
            regions = set(re.findall(r"/dev/shm/holdfast\.[A-Za-z0-9._-]*", maps.read()))
        self.process.terminate()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder)
        for region in regions:
            if os.path.isdir(region):
                shutil.rmtree(region, ignore_errors=True)
            elif os.path.exists(region):
                os.unlink(region)


def command(*words: str) -> None:
    """Runs the command `holdfast`."""
    subprocess.run(
        [os.path.join(BIN_DIR, "holdfast"), *words],
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=GUARD_S,
    )


class Process:
    """Another Python process. It runs the code, with `holdfast`, `client` and say(WORD) at hand."""

    PRELUDE = (
        "import os, signal, sys, threading, time, holdfast\n"
        "def say(word): print(word, flush=True)\n"
        "client = holdfast.Client()\n"
    )

    def __init__(self, code: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.PRELUDE + code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_the_test,
        )

    def expect(self, test: unittest.TestCase, word: str) -> None:
        assert self.process.stdout is not None
        guard = threading.Timer(GUARD_S, self.process.kill)
        guard.start()
        line = self.process.stdout.readline()
        guard.cancel()
        test.assertEqual(line.strip(), word)

    def go_on(self) -> None:
        """Lets an input() of the process return."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


class AgentTest(unittest.TestCase):
    """One agent for the tests of a class, and one client for each test."""

    agent: Agent
    client: holdfast.Client

    @classmethod
    def setUpClass(cls) -> None:
        cls.agent = Agent()
        cls.addClassCleanup(cls.agent.stop)

    def setUp(self) -> None:
        self.client = holdfast.Client()
        self.addCleanup(self.client.close)

    def assert_free(self, lock: holdfast.Lock) -> None:
        """Nobody holds the lock or waits for it."""
        reason = lock.why()
        self.assertEqual((reason.holders, reason.waiters), (0, 0), reason)
        lock.acquire(wait=False).release()
