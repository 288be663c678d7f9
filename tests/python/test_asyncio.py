"""Locks with asyncio, with a real agent."""

import asyncio
import gc
import threading
import time
import types
import unittest
import warnings

import holdfast
from holdfast._wait import Wait

from support import GUARD_S, AgentTest, wait_until


class Asyncio(AgentTest, unittest.IsolatedAsyncioTestCase):
    async def until_waiting(self, lock: holdfast.Lock, count: int = 1) -> None:
        end = time.monotonic() + GUARD_S
        while lock.why().waiters < count:
            self.assertLess(time.monotonic(), end, "the waiter did not come")
            await asyncio.sleep(0.005)

    async def test_tasks_exclude_each_other(self) -> None:
        """There are more waiting tasks than asyncio's own pool has threads."""
        lock = self.client.lock("tasks")
        inside = worst = done = 0

        async def work() -> None:
            nonlocal inside, worst, done
            for _ in range(3):
                async with lock.acquire_async() as hold:
                    self.assertGreater(hold.token, 0)
                    inside += 1
                    worst = max(worst, inside)
                    await asyncio.sleep(0)
                    inside -= 1
                    done += 1

        await asyncio.gather(*(work() for _ in range(40)))
        self.assertEqual((done, worst), (120, 1))
        self.assert_free(lock)

    async def test_await(self) -> None:
        lock = self.client.lock("await")
        hold = await lock.acquire_async(shared=True)
        with hold:
            self.assertTrue(hold.shared)
            with self.assertRaises(holdfast.WouldBlock):
                await lock.acquire_async(wait=False)
        self.assert_free(lock)

    async def test_the_loop_goes_on(self) -> None:
        lock = self.client.lock("loop")
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0.001)

        counter = asyncio.create_task(count())
        with lock, self.assertRaises(holdfast.Timeout) as caught:
            await lock.acquire_async(timeout=1)
        counter.cancel()
        self.assertGreater(turns, 3)
        self.assertEqual(caught.exception.reason.kind, holdfast.ReasonKind.HELD)
        self.assert_free(lock)

    async def test_cancelled_wait(self) -> None:
        lock = self.client.lock("cancelled")
        with lock:
            task = asyncio.ensure_future(lock.acquire_async())
            other = asyncio.ensure_future(lock.acquire_async())
            await self.until_waiting(lock, 2)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertEqual(lock.why().waiters, 1)
            self.assertFalse(other.done())
        (await other).release()
        self.assert_free(lock)

    async def test_cancelled_at_any_moment(self) -> None:
        """No hold is left, whatever the wait was just doing."""
        lock = self.client.lock("any-moment")
        caught = self.enterContext(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        outcomes = {True: 0, False: 0}
        for turn in range(60):
            hold = await lock.acquire_async()
            task = asyncio.ensure_future(lock.acquire_async())
            for _ in range(turn % 4):
                await asyncio.sleep(0.0005 * (turn % 3))
            if turn % 2:
                hold.release()
                time.sleep(0.0003 * (turn % 5))  # the thread may get the lock before the cancel
            task.cancel()
            try:
                (await task).release()
                outcomes[True] += 1
            except asyncio.CancelledError:
                outcomes[False] += 1
            if not turn % 2:
                hold.release()
            lock.acquire(wait=False).release()
        self.assertEqual(sum(outcomes.values()), 60)
        self.assertGreaterEqual(outcomes[False], 30)
        self.assert_free(lock)
        # the wait itself has released a hold that came too late; if the garbage collector had done
        # so, there would be a warning
        self.assertEqual([str(warning.message) for warning in caught], [])

    async def test_cancelled_twice(self) -> None:
        """The second cancel does not wait for the end of the wait, which leaves no hold all the
        same."""
        lock = self.client.lock("twice")
        with lock:
            task = asyncio.ensure_future(lock.acquire_async())
            await self.until_waiting(lock)
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
        wait_until(lambda: lock.why().holders == 0, "the end of the wait")
        self.assert_free(lock)

    async def test_timeout_of_asyncio(self) -> None:
        lock = self.client.lock("asyncio-timeout")
        with lock:
            with self.assertRaises(TimeoutError):
                async with asyncio.timeout(0.05), lock.acquire_async():
                    self.fail("the lock is held")
            with self.assertRaises(TimeoutError):
                await asyncio.wait_for(lock.acquire_async(), 0.05)
        self.assert_free(lock)

    async def test_cancelled_block(self) -> None:
        lock = self.client.lock("block")

        async def work() -> None:
            async with lock.acquire_async():
                await asyncio.sleep(GUARD_S)

        task = asyncio.create_task(work())
        while lock.why().holders == 0:
            await asyncio.sleep(0.005)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assert_free(lock)

    async def test_lost(self) -> None:
        lock = self.client.lock("lost", lease=0.1)
        with self.assertRaises(holdfast.LockLost) as caught:
            async with lock.acquire_async() as hold:
                while hold.remaining() > 0:
                    await asyncio.sleep(0.01)
        self.assertEqual(caught.exception.reason.kind, holdfast.ReasonKind.LEASE_OVER)

    async def test_thrown_away(self) -> None:
        """A coroutine that is closed in the middle of its wait ends the wait, and says nothing."""
        lock = self.client.lock("thrown-away")
        with lock:
            waiting = lock.acquire_async().__await__()
            next(waiting)
            await self.until_waiting(lock)
            waiting.close()
            wait_until(lambda: lock.why().waiters == 0, "the end of the wait")
        self.assert_free(lock)


class FakeHold:
    """A hold whose acquire ends when the test says so, or at the third cancel."""

    lock = types.SimpleNamespace(name="fake")

    def __init__(self) -> None:
        self.end = threading.Event()
        self.cancels = 0
        self.late_cancels = 0  # those after the drop, when the handle may belong to another wait
        self.drops = 0
        self.fails = False

    def _take(self, request: object) -> None:
        self.end.wait(GUARD_S)
        if self.fails:
            raise holdfast.Canceled("fake")

    def _cancel(self) -> None:
        if self.drops > 0:
            self.late_cancels += 1
        self.cancels += 1
        if self.cancels == 3:
            self.end.set()

    def _drop(self) -> None:
        self.drops += 1


class Waits(unittest.TestCase):
    """What is left of an abandoned wait, step by step."""

    def setUp(self) -> None:
        self.hold = FakeHold()
        self.finished = threading.Event()
        self.wait = Wait(self.hold, object(), self.finished.set)  # type: ignore[arg-type]

    def test_not_abandoned(self) -> None:
        self.hold.end.set()
        self.wait.join()
        self.assertTrue(self.finished.wait(GUARD_S))
        self.assertEqual((self.hold.cancels, self.hold.drops), (0, 0))

    def test_abandoned_and_got_all_the_same(self) -> None:
        """One cancel is not enough, because the wait may be just about to begin."""
        self.wait.abandon()
        self.assertTrue(self.finished.wait(GUARD_S))
        self.assertEqual(self.hold.drops, 1)
        cancels = self.hold.cancels
        self.assertGreaterEqual(cancels, 3)
        time.sleep(0.05)
        # no further cancel, because the handle may belong to another wait by now
        self.assertEqual(self.hold.cancels, cancels)

    def test_abandoned_and_failed(self) -> None:
        """The handle is dropped, and no cancel comes after that."""
        self.hold.fails = True
        self.wait.abandon()
        self.assertTrue(self.finished.wait(GUARD_S))
        time.sleep(0.05)
        self.assertGreaterEqual(self.hold.drops, 1)
        self.assertEqual(self.hold.late_cancels, 0)

    def test_failed(self) -> None:
        self.hold.fails = True
        self.hold.end.set()
        with self.assertRaises(holdfast.Canceled):
            self.wait.join()
        self.assertEqual((self.hold.cancels, self.hold.drops), (0, 1))

    def test_abandoned_after_the_end(self) -> None:
        self.hold.end.set()
        self.assertTrue(self.finished.wait(GUARD_S))
        self.wait.abandon()
        self.assertEqual((self.hold.cancels, self.hold.drops), (0, 1))


class EndOfTheLoop(AgentTest):
    def test_loop_that_ends_before_the_wait(self) -> None:
        """A wait whose loop is closed gives back what it gets."""
        lock = self.client.lock("loop-ends")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            with lock:
                loop = asyncio.new_event_loop()
                task = asyncio.ensure_future(lock.acquire_async(), loop=loop)
                loop.run_until_complete(asyncio.sleep(0.01))
                wait_until(lambda: lock.why().waiters == 1, "the waiter")
                loop.close()
            wait_until(lambda: lock.why().waiters == 0, "the end of the wait")
            wait_until(lambda: lock.why().holders == 0, "the release")
            task._log_destroy_pending = False
            del task
            gc.collect()
        self.assert_free(lock)


if __name__ == "__main__":
    unittest.main()
