"""Locks and holds, with a real agent."""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock
import warnings

import holdfast
from holdfast import ReasonKind

from support import GUARD_S, AgentTest, Process, command, wait_until


class Locks(AgentTest):
    def test_threads_exclude_each_other(self) -> None:
        lock = self.client.lock("threads")
        inside = 0
        worst = 0
        done = 0

        def work() -> None:
            nonlocal inside, worst, done
            for _ in range(50):
                with lock:
                    inside += 1
                    worst = max(worst, inside)
                    time.sleep(0)
                    inside -= 1
                    done += 1

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(GUARD_S)
        self.assertEqual((done, worst), (200, 1))
        # the handles are used again
        self.assertLessEqual(len(self.client._handles), 4)
        self.assert_free(lock)

    def test_processes_exclude_each_other(self) -> None:
        lock = self.client.lock("processes")
        code = "hold = client.lock('processes').acquire(); say('held'); input()"
        with Process(code) as other:
            other.expect(self, "held")
            with self.assertRaises(holdfast.WouldBlock) as caught:
                lock.acquire(wait=False)
            reason = caught.exception.reason
            assert reason is not None
            self.assertEqual(reason.kind, ReasonKind.HELD)
            self.assertEqual(reason.pid, other.process.pid)
            self.assertEqual(reason.uid, os.getuid())
            self.assertEqual(reason.holders, 1)
            self.assertIn(reason.text, str(caught.exception))
            self.assertIn("lock 'processes'", str(caught.exception))
            other.go_on()
            other.process.wait()
        lock.acquire().release()

    def test_token_and_deadline(self) -> None:
        lock = self.client.lock("tokens")
        tokens = []
        for _ in range(3):
            before_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            with lock.acquire() as hold:
                tokens.append(hold.token)
                after_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
                self.assertTrue(before_ns < hold.deadline_ns < after_ns + 60_000_000_000)
                self.assertTrue(0 < hold.remaining_ns() < 60_000_000_000)
                self.assertTrue(0 < hold.remaining() < 60)
                hold.check()
        self.assertEqual(tokens, sorted(set(tokens)))
        self.assertEqual(hold.remaining_ns(), 0)

    def test_shared(self) -> None:
        lock = self.client.lock("shared")
        with lock.acquire(shared=True) as one, lock.acquire(shared=True, wait=False) as two:
            self.assertTrue(one.shared and two.shared)
            with self.assertRaises(holdfast.WouldBlock):
                lock.acquire(wait=False)
        with lock, self.assertRaises(holdfast.WouldBlock):
            lock.acquire(shared=True, wait=False)

    def test_downgrade(self) -> None:
        lock = self.client.lock("downgrade")
        with lock.acquire() as hold:
            hold.downgrade()
            self.assertTrue(hold.shared)
            lock.acquire(shared=True, wait=False).release()

    def test_timeouts(self) -> None:
        lock = self.client.lock("timeouts")
        with lock:
            for timeout in (0.05, 0, -1):
                with self.assertRaises(holdfast.Timeout) as caught:
                    lock.acquire(timeout=timeout)
                self.assertIsInstance(caught.exception, TimeoutError)
                self.assertIsInstance(caught.exception, holdfast.NotAcquired)
                self.assertEqual(caught.exception.code, holdfast.Timeout.code)
                self.assertEqual(caught.exception.reason.kind, ReasonKind.HELD)
            with self.assertRaises(holdfast.WouldBlock) as caught:
                lock.acquire(wait=False, explain=False)
            self.assertIsNone(caught.exception.reason)
            self.assertEqual(lock.why().kind, ReasonKind.HELD)
        for timeout in (None, 5, float("inf"), 1e300):
            lock.acquire(timeout=timeout).release()
        with self.assertRaises(holdfast.InvalidArgument):
            lock.acquire(timeout=1, wait=False)
        with self.assertRaises(holdfast.InvalidArgument):
            lock.acquire(timeout=float("nan"))
        self.assertEqual(lock.why().kind, ReasonKind.NOTHING)

    def test_timeout_is_a_timeout(self) -> None:
        lock = self.client.lock("short")
        with lock:
            for in_thread in (False, True):
                started = time.monotonic()
                caught: list[BaseException] = []

                def wait() -> None:
                    try:
                        lock.acquire(timeout=0.2)
                    except holdfast.Timeout as error:
                        caught.append(error)

                if in_thread:
                    thread = threading.Thread(target=wait)
                    thread.start()
                    thread.join(GUARD_S)
                else:
                    wait()
                self.assertEqual(len(caught), 1)
                self.assertGreaterEqual(time.monotonic() - started, 0.2)

    def test_lost_by_lease(self) -> None:
        lock = self.client.lock("lease", lease=0.1)
        with self.assertRaises(holdfast.LockLost) as caught, lock.acquire() as hold:
            self.assertLessEqual(hold.remaining(), 0.1)
            wait_until(lambda: hold.remaining() == 0, "the end of the lease")
            with self.assertRaises(holdfast.LockLost):
                hold.check()
        self.assertEqual(caught.exception.reason.kind, ReasonKind.LEASE_OVER)
        self.assertIn("its lease of 0.1 s is over", str(caught.exception))
        # the handle can be used again; on a busy machine this hold may be lost, too
        hold = lock.acquire(timeout=GUARD_S)
        with contextlib.suppress(holdfast.LockLost):
            hold.release()

    def test_lost_in_a_with_of_the_lock(self) -> None:
        lock = self.client.lock("lease", lease=0.1)
        with self.assertRaises(holdfast.LockLost), lock as hold:
            wait_until(lambda: hold.remaining() == 0, "the end of the lease")

    def test_lost_and_another_error(self) -> None:
        lock = self.client.lock("lease", lease=0.1)
        with self.assertRaises(KeyError) as caught, lock.acquire() as hold:
            wait_until(lambda: hold.remaining() == 0, "the end of the lease")
            raise KeyError("of the block")
        self.assertIn("its lease of 0.1 s is over", caught.exception.__notes__[0])

    def test_error_of_the_block(self) -> None:
        lock = self.client.lock("error")
        with self.assertRaises(KeyError) as caught, lock:
            raise KeyError
        self.assertFalse(hasattr(caught.exception, "__notes__"))
        self.assert_free(lock)

    def test_stall(self) -> None:
        lock = self.client.lock("stall", max_stall=1)

        def end_ns() -> int:
            """When the hold ends, give or take 5 ms."""
            while True:
                before_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
                remaining_ns = hold.remaining_ns()
                if time.clock_gettime_ns(time.CLOCK_BOOTTIME) - before_ns < 5_000_000:
                    return before_ns + remaining_ns

        with self.assertRaises(holdfast.LockLost) as caught, lock.acquire() as hold:
            first_ns = end_ns()
            time.sleep(0.05)
            hold.progress()
            self.assertGreater(end_ns(), first_ns + 40_000_000)
            wait_until(lambda: hold.remaining() == 0, "the end of the patience")
            with self.assertRaises(holdfast.LockLost):
                hold.progress()
        self.assertEqual(caught.exception.reason.kind, ReasonKind.STALLED)

    def test_broken(self) -> None:
        lock = self.client.lock("broken")
        with self.assertRaises(holdfast.LockLost) as caught, lock.acquire() as hold:
            command("break", "broken")
            wait_until(lambda: hold.remaining() == 0, "the break")
        self.assertEqual(caught.exception.reason.kind, ReasonKind.BROKEN)
        self.assertEqual(caught.exception.reason.uid, os.getuid())

    def test_lock_delay(self) -> None:
        code = (
            "hold = client.lock('{0}', lock_delay={1}).acquire()\n"
            "say('held'); os.kill(os.getpid(), signal.SIGKILL)"
        )
        for name, delay in (("delay", 50), ("no-delay", 0)):
            with Process(code.format(name, delay)) as other:
                other.expect(self, "held")
                other.process.wait()
        self.client.lock("no-delay").acquire().release()
        lock = self.client.lock("delay")
        wait_until(lambda: lock.why().kind == ReasonKind.CLOSED, "the lock-delay")
        with self.assertRaises(holdfast.WouldBlock) as caught:
            lock.acquire(wait=False)
        self.assertEqual(caught.exception.reason.kind, ReasonKind.CLOSED)
        self.assertTrue(1 < caught.exception.reason.closed <= 50, caught.exception.reason)

    def test_barging(self) -> None:
        with self.client.lock("barging", barging=True):
            self.assertEqual(self.client.lock("barging").why().kind, ReasonKind.HELD)

    def test_sequencer(self) -> None:
        lock = self.client.lock("sequencer")
        with lock.acquire() as hold:
            sequencer = hold.sequencer()
            self.assertRegex(sequencer, r"^[A-Za-z0-9._~%:/-]+$")
            self.client.check_sequencer(sequencer)
            self.client.check_sequencer_local(sequencer)
        with self.assertRaises(holdfast.Stale):
            self.client.check_sequencer(sequencer)
        with lock, self.assertRaises(holdfast.Stale):
            self.client.check_sequencer_local(sequencer)
        for text in ("nonsense", "a\0b"):
            with self.assertRaises(holdfast.InvalidArgument):
                self.client.check_sequencer(text)

    def test_released(self) -> None:
        hold = self.client.lock("released").acquire()
        hold.release()
        for call in (hold.release, hold.check, hold.progress, hold.downgrade, hold.sequencer):
            with self.assertRaises(holdfast.NotHeld):
                call()
        with hold:  # the end of the block has nothing to release
            pass

    def test_two_threads_on_a_hold(self) -> None:
        """While one thread calls a hold's method, another one releases the hold, and a third one
        takes the lock. The call must not reach the third one's hold."""
        lock = self.client.lock("two-threads")
        for name in ("hf_downgrade", "hf_progress", "hf_sequencer", "hf_remaining_ns"):
            hold = lock.acquire()
            function = getattr(holdfast._library, name)
            next_holds: list[holdfast.Hold] = []

            def work() -> None:
                hold.release()
                next_holds.append(lock.acquire())

            def late(*arguments: object) -> int:
                thread = threading.Thread(target=work)
                thread.start()
                thread.join(GUARD_S)
                return function(*arguments)

            call = {
                "hf_downgrade": hold.downgrade,
                "hf_progress": hold.progress,
                "hf_sequencer": hold.sequencer,
                "hf_remaining_ns": hold.check,
            }[name]
            with (
                unittest.mock.patch(f"holdfast._library.{name}", late),
                self.assertRaises((holdfast.NotHeld, holdfast.LockLost), msg=name),
            ):
                call()
            with self.assertRaises(holdfast.WouldBlock, msg=name):
                lock.acquire(shared=True, wait=False)
            next_holds[0].release()
            self.assert_free(lock)
        # the handles of the calls were given back
        self.assertLessEqual(len(self.client._handles), 2)

    def test_two_releases(self) -> None:
        """One of two threads that release a hold at once gets NotHeld, and the next hold stays."""
        lock = self.client.lock("two-releases")
        hold = lock.acquire()
        release = holdfast._library.hf_release
        results: list[object] = []

        def again() -> None:
            try:
                results.append(hold.release())
            except holdfast.NotHeld as error:
                results.append(error)

        def late(handle: int) -> int:
            with unittest.mock.patch("holdfast._library.hf_release", release):
                thread = threading.Thread(target=again)
                thread.start()
                thread.join(GUARD_S)
            self.assertEqual(hold.remaining_ns(), 0)
            return release(handle)

        with unittest.mock.patch("holdfast._library.hf_release", late):
            hold.release()
        self.assertIsInstance(results[0], holdfast.NotHeld)
        self.assert_free(lock)

    def test_dropped(self) -> None:
        lock = self.client.lock("dropped")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            hold = lock.acquire()
            del hold
            gc.collect()
        self.assertEqual([warning.category for warning in caught], [ResourceWarning])
        self.assert_free(lock)

    def test_closed_lock(self) -> None:
        """The handles of a lock that nobody refers to are closed."""
        before = len(self.client._handles)
        lock = self.client.lock("temporary")
        self.assertEqual(len(self.client._handles), before + 1)
        del lock
        gc.collect()
        self.assertEqual(len(self.client._handles), before)

    def test_names(self) -> None:
        self.assertEqual(self.client.lock("n\xe4me" * 3).name, "n\xe4me" * 3)
        with self.assertRaises(holdfast.NameTooLong) as caught:
            self.client.lock("x" * 256)
        self.assertIsInstance(caught.exception, ValueError)
        for name in ("", "a\0b", "a\nb", "\ud800"):
            with self.assertRaises(holdfast.InvalidArgument, msg=repr(name)):
                self.client.lock(name)

    def test_wrong_types(self) -> None:
        """A TypeError names the expected type."""
        lock = self.client.lock("types")
        for call, expected in (
            (lambda: self.client.lock(5), "the name: expected a str, not int (5)"),
            (lambda: self.client.lock(b"x"), "the name: expected a str, not bytes (b'x')"),
            (lambda: self.client.watch(None), "the prefix: expected a str, not NoneType"),
            (lambda: self.client.check_sequencer(5), "the sequencer: expected a str, not int"),
            (lambda: holdfast.Client(command=5), "the command: expected a str, not int"),
            (lambda: self.client.lock("x", lease="1s"), "lease: expected a number of seconds"),
            (lambda: lock.acquire(timeout="5"), "timeout: expected a number of seconds, not str"),
            (lambda: holdfast.acquire_all([lock]), "acquire_all: expected each lock"),
            (lambda: holdfast.acquire_all("types"), "acquire_all: expected each lock"),
        ):
            with self.assertRaises(TypeError) as caught:
                call()
            self.assertIn(expected, str(caught.exception))

    def test_messages(self) -> None:
        """The messages contain the wrong value, and belong to the thread that failed."""
        with self.assertRaises(holdfast.NameTooLong) as caught:
            self.client.lock("x" * 256)
        self.assertIn("256 bytes, expected at most 255", str(caught.exception))
        with self.assertRaises(holdfast.InvalidArgument) as caught:
            self.client.lock("a\nb")
        self.assertIn("byte 2 is 0x0A", str(caught.exception))
        with self.assertRaises(holdfast.NoAgent) as caught:
            holdfast.Client("/nonexistent/agent.sock", connect_timeout=0)
        self.assertIn(
            "at /nonexistent/agent.sock: No such file or directory", str(caught.exception)
        )
        results: list[holdfast.Error] = []

        def lose() -> None:
            try:
                with self.client.lock("lost", lease=0.1).acquire() as hold:
                    token.append(hold.token)
                    wait_until(lambda: hold.remaining() == 0, "the end of the lease")
            except holdfast.LockLost as error:
                results.append(error)

        token: list[int] = []
        thread = threading.Thread(target=lose)
        thread.start()
        thread.join(GUARD_S)
        self.assertRegex(
            str(results[0]),
            f'"lost" with token {token[0]} does not count: its lease of 0.1 s is over',
        )
        self.assertEqual(str(results[0]).count("its lease of"), 1)

    def test_message_of_another_call(self) -> None:
        """A signal handler may call the library after a failure and before its text is read. Then
        the text may belong to the handler's call, so it is not used."""
        text = holdfast._library.hf_error_text

        def handler(client: object) -> bytes:
            if not handled:
                handled.append(True)
                with self.assertRaises(holdfast.NameTooLong):
                    self.client.lock("x" * 256)
            return text(client)

        handled: list[bool] = []
        with (
            unittest.mock.patch("holdfast._library.hf_error_text", handler),
            self.assertRaises(holdfast.InvalidArgument) as caught,
        ):
            self.client.lock("a\nb")
        self.assertEqual(handled, [True])
        self.assertNotIn("256 bytes", str(caught.exception))
        self.assertIn("lock 'a\\nb': ", str(caught.exception))

    def test_options(self) -> None:
        # to the library, a delay of 0 is its default of 1 s, and a negative one is none
        for delay, delay_ns in ((None, 0), (0, -1), (0.25, 250_000_000)):
            options = self.client.lock("options", lock_delay=delay)._options
            self.assertEqual(options.lock_delay_ns, delay_ns)
        for options in ({"lease": 0}, {"lease": -1}, {"max_stall": 0}, {"lock_delay": 61}):
            with self.assertRaises(holdfast.InvalidArgument, msg=str(options)):
                self.client.lock("options", **options)

    def test_note(self) -> None:
        with self.client.lock("noted", note="Überweisung 7\n"):
            with self.assertRaises(holdfast.WouldBlock) as caught:
                self.client.lock("noted").acquire(wait=False)
        self.assertEqual(caught.exception.reason.note, "Überweisung 7?")
        self.assertIn('note "Überweisung 7?"', str(caught.exception))
        for note in ("n" * 257, "a\0b"):
            with self.assertRaises(holdfast.InvalidArgument):
                self.client.lock("noted", note=note)

    def test_all(self) -> None:
        a, b = self.client.lock("all-a"), self.client.lock("all-b")
        with holdfast.acquire_all(b, a, timeout=5) as holds:
            self.assertEqual([hold.lock.name for hold in holds], ["all-b", "all-a"])
            self.assertEqual(len(holds), 2)
            for lock in (a, b):
                with self.assertRaises(holdfast.WouldBlock):
                    lock.acquire(wait=False)
        with b, self.assertRaises(holdfast.WouldBlock) as caught:
            holdfast.acquire_all(b, a, wait=False)
        self.assertIn("all-b", str(caught.exception))
        self.assert_free(a)
        self.assert_free(b)
        with self.assertRaises(holdfast.InvalidArgument):
            holdfast.acquire_all(a, b, a, timeout=1)
        with self.assertRaisesRegex(ValueError, "found no lock, expected at least one"):
            holdfast.acquire_all()
        short = self.client.lock("all-short", lease=0.1)
        with self.assertRaises(holdfast.LockLost), holdfast.acquire_all(a, short) as holds:
            wait_until(lambda: holds[1].remaining() == 0, "the end of the lease")
        self.assert_free(a)

    def wait_for_all(self, *locks: holdfast.Lock) -> tuple[threading.Thread, list[object]]:
        results: list[object] = []

        def wait() -> None:
            try:
                holds = holdfast.acquire_all(*locks)
                results.append("taken")
                holds.release()
            except holdfast.Error as error:
                results.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        return thread, results

    def test_all_in_the_order_of_the_names(self) -> None:
        a, b = self.client.lock("order-a"), self.client.lock("order-b")
        with b:
            thread, results = self.wait_for_all(b, a)
            wait_until(lambda: b.why().waiters == 1, "the waiter")
            with self.assertRaises(holdfast.WouldBlock):
                a.acquire(wait=False)
        thread.join(GUARD_S)
        self.assertEqual(results, ["taken"])

    def test_all_and_one_is_lost_meanwhile(self) -> None:
        a, b = self.client.lock("meanwhile-a", lease=0.1), self.client.lock("meanwhile-b")
        with b:
            thread, results = self.wait_for_all(a, b)
            wait_until(lambda: b.why().waiters == 1, "the waiter")
            wait_until(lambda: a.why().holders == 0, "the end of the lease")
        thread.join(GUARD_S)
        self.assertIsInstance(results[0], holdfast.LockLost)
        self.assert_free(b)


class Ends(AgentTest):
    """How waits and clients end."""

    def wait_for_waiter(self, lock: holdfast.Lock) -> None:
        wait_until(lambda: lock.why().waiters == 1, "the waiter")

    def acquire_in_thread(self, lock: holdfast.Lock) -> tuple[threading.Thread, list[object]]:
        results: list[object] = []

        def wait() -> None:
            try:
                results.append(lock.acquire())
            except holdfast.Error as error:
                results.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        return thread, results

    def test_cancel(self) -> None:
        lock = self.client.lock("cancel")
        with lock:
            thread, results = self.acquire_in_thread(lock)
            self.wait_for_waiter(lock)
            lock.cancel()
            thread.join(GUARD_S)
        self.assertIsInstance(results[0], holdfast.Canceled)
        self.assert_free(lock)

    def test_close_ends_waits(self) -> None:
        client = holdfast.Client()
        theirs = client.lock("close")
        ours = self.client.lock("close")
        with ours:
            thread, results = self.acquire_in_thread(theirs)
            self.wait_for_waiter(ours)
            client.close()
            thread.join(GUARD_S)
        self.assertIsInstance(results[0], holdfast.Closed)
        self.assert_free(ours)

    def test_close_releases(self) -> None:
        ours = self.client.lock("close")
        with holdfast.Client() as client:
            lock = client.lock("close")
            hold = lock.acquire()
        self.assertTrue(client.closed)
        client.close()
        self.assertEqual(hold.remaining_ns(), 0)
        for call in (hold.release, hold.check, lock.acquire, client.next_event, client.watch):
            with self.assertRaises(holdfast.Closed):
                call()
        with self.assertRaises(holdfast.Closed):
            client.lock("close")
        self.assert_free(ours)

    def test_close_within_a_call_of_the_same_thread(self) -> None:
        """As a signal handler does: the interrupted call must not find freed memory."""
        before = sorted(os.listdir("/proc/self/fd"))
        client = holdfast.Client()
        ours = self.client.lock("handler")
        theirs = client.lock("handler")
        hold = theirs.acquire()

        def handler(handle: int) -> int:
            client.close()
            client.close()
            self.assert_free(ours)
            return holdfast._library.hf_remaining_ns(handle)

        client._call(client._call, handler, hold._handle[0])
        self.assert_free(ours)
        # the end of the interrupted call has ended the connection
        self.assertEqual(sorted(os.listdir("/proc/self/fd")), before)
        self.assertEqual(hold.remaining_ns(), 0)
        with self.assertRaises(holdfast.Closed):
            hold.release()

    def test_close_in_a_signal_handler(self) -> None:
        """A close in a signal handler ends the wait of the main thread, and the connection."""
        code = (
            "lock = client.lock('handler')\n"
            "signal.signal(signal.SIGUSR1, lambda *_: client.close())\n"
            "say('waits')\n"
            "try: lock.acquire()\n"
            "except holdfast.Closed: say('closed')\n"
            "links = [os.readlink(f'/proc/self/fd/{fd}') for fd in (3, 4, 5, 6, 7, 8, 9)\n"
            "         if os.path.exists(f'/proc/self/fd/{fd}')]\n"
            "say(len([link for link in links if link.startswith('socket:')]))\n"
            "input()"
        )
        lock = self.client.lock("handler")
        with Process(code) as other, lock:
            other.expect(self, "waits")
            self.wait_for_waiter(lock)
            other.process.send_signal(signal.SIGUSR1)
            other.expect(self, "closed")
            other.expect(self, "0")
            self.assertEqual(lock.why().waiters, 0)

    def test_no_agent(self) -> None:
        connect = holdfast._library.hf_connect
        with (
            unittest.mock.patch("holdfast._library.hf_connect", wraps=connect) as called,
            self.assertRaises(holdfast.NoAgent) as caught,
        ):
            holdfast.Client("/nonexistent/agent.sock", connect_timeout=0)
        # 0 would be the library's default of 5 s
        self.assertEqual(called.call_args.args[0].connect_timeout_ns, 1)
        self.assertIsInstance(caught.exception, ConnectionError)
        self.assertIn("/nonexistent/agent.sock", str(caught.exception))
        for path in ("x" * 200, "a\0b"):
            with self.assertRaises(holdfast.InvalidArgument):
                holdfast.Client(path)

    def test_command(self) -> None:
        with holdfast.Client(command="the nightly job") as client, client.lock("command"):
            self.assertEqual(self.client.lock("command").why().command, "the nightly job")

    def test_socket(self) -> None:
        path = os.path.join(self.agent.state, "agent.sock")
        with holdfast.Client(path) as client, client.lock("socket"):
            pass

    def test_interrupt(self) -> None:
        """In a wait of the main thread signal handlers run. Ctrl-C ends it, and leaves no hold."""
        lock = self.client.lock("interrupt")
        code = (
            "lock = client.lock('interrupt')\n"
            "signal.signal(signal.SIGUSR1, lambda *_: say('handled'))\n"
            "say('waits')\n"
            "try: lock.acquire()\n"
            "except KeyboardInterrupt: say('interrupted')\n"
            "input()"
        )
        with Process(code) as other:
            with lock:
                other.expect(self, "waits")
                self.wait_for_waiter(lock)
                other.process.send_signal(signal.SIGUSR1)
                other.expect(self, "handled")
                self.assertEqual(lock.why().waiters, 1)
                other.process.send_signal(signal.SIGINT)
                other.expect(self, "interrupted")
            self.assert_free(lock)

    def test_fork(self) -> None:
        """A forked child owns nothing, and can connect anew."""
        code = (
            "lock = client.lock('fork')\n"
            "listener = client.listen(lambda event: None)\n"
            "with lock as hold:\n"
            "    threading.Thread(target=lambda: lock.acquire().release()).start()\n"
            "    while lock.why().waiters == 0: time.sleep(0.01)\n"
            "    child = os.fork()\n"
            "    if child == 0:\n"
            "        signal.alarm(60)  # a guard against hanging\n"
            "        failures = []\n"
            "        calls = (lock.acquire, hold.release, hold.sequencer, hold.check,\n"
            "                 client.watch)\n"
            "        for call in calls:\n"
            "            try: call()\n"
            "            except holdfast.Forked: continue\n"
            "            failures.append(call)\n"
            "        if hold.remaining_ns() != 0: failures.append('remaining')\n"
            "        client.close()\n"
            "        with holdfast.Client() as mine:\n"
            "            try: mine.lock('fork').acquire(wait=False)\n"
            "            except holdfast.WouldBlock: pass\n"
            "            else: failures.append('excluded')\n"
            "            with mine.lock('fork-2'): pass\n"
            "        print(failures, flush=True)\n"
            "        os._exit(0)\n"
            "    os.waitpid(child, 0)\n"
            "    hold.check()\n"
            "say('released')"
        )
        with Process(code) as other:
            other.expect(self, "[]")
            other.expect(self, "released")

    def test_block_left_in_the_child(self) -> None:
        """A child that leaves its parent's block does not release the parent's hold."""
        code = (
            "lock = client.lock('fork-block')\n"
            "with lock as hold:\n"
            "    try:\n"
            "        with hold:\n"
            "            child = os.fork()\n"
            "            if child == 0: raise SystemExit(7)\n"
            "            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7\n"
            "            hold.check()\n"
            "            say('held')\n"
            "    except SystemExit as error:\n"
            "        os._exit(error.code if 'forked child' in error.__notes__[0] else 1)\n"
        )
        with Process(code) as other:
            other.expect(self, "held")

    def test_missing_library(self) -> None:
        environment = {**os.environ, "LD_LIBRARY_PATH": "/nonexistent"}
        result = subprocess.run(
            [sys.executable, "-c", "import holdfast"],
            env=environment,
            capture_output=True,
            text=True,
        )
        if result.returncode == 0:
            self.skipTest("this system has a libholdfast.so.0 of its own")
        self.assertIn("libholdfast.so.0", result.stderr)
        self.assertIn("libholdfast0 has this library", result.stderr)


if __name__ == "__main__":
    unittest.main()
