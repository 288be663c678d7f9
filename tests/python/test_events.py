"""Events: by next_event() and the descriptor, by a callback, by asyncio."""

import asyncio
import queue
import select
import threading
import time
import unittest

import holdfast
from holdfast import EventKind, ReasonKind

from support import GUARD_S, AgentTest, command, wait_until


class Events(AgentTest, unittest.IsolatedAsyncioTestCase):
    def next_event(self, kind: EventKind) -> holdfast.Event:
        """The next event of that kind. It comes by the descriptor."""
        poll = select.poll()
        poll.register(self.client, select.POLLIN)
        end = time.monotonic() + GUARD_S
        while time.monotonic() < end:
            while (event := self.client.next_event()) is not None:
                if event.kind == kind:
                    return event
            poll.poll(1000)
        raise AssertionError(f"no event {kind!r}")

    def test_granted(self) -> None:
        self.assertIsNone(self.client.next_event())
        lock = self.client.lock("granted")
        holds: list[holdfast.Hold] = []
        hold = lock.acquire()
        thread = threading.Thread(target=lambda: holds.append(lock.acquire()))
        thread.start()
        wait_until(lambda: lock.why().waiters == 1, "the waiter")
        hold.release()
        thread.join(GUARD_S)
        event = self.next_event(EventKind.GRANTED)
        self.assertEqual((event.name, event.token), ("granted", holds[0].token))
        self.assertIs(event.hold, holds[0])
        self.assertEqual(event.why, ReasonKind.NOTHING)
        holds[0].release()

    def test_lost(self) -> None:
        self.client.fileno()
        lock = self.client.lock("lost")
        with self.assertRaises(holdfast.LockLost), lock.acquire() as hold:
            command("break", "lost")
            event = self.next_event(EventKind.LOST)
            self.assertIs(event.hold, hold)
            self.assertEqual((event.name, event.token), ("lost", hold.token))
            self.assertEqual(event.why, ReasonKind.BROKEN)

    def test_watch(self) -> None:
        self.client.watch("watched/")
        with self.client.lock("watched/one"):
            event = self.next_event(EventKind.CHANGED)
        self.assertEqual((event.hold, event.token), (None, 0))
        self.assertTrue(event.name.startswith("watched/"), event)
        self.client.unwatch("watched/")
        while self.client.next_event() is not None:
            pass
        with self.client.lock("watched/two"):
            pass
        self.client.watch("other/")
        with self.client.lock("other/one"):
            event = self.next_event(EventKind.CHANGED)
        self.assertTrue(event.name.startswith("other/"), event)
        with self.assertRaises(holdfast.InvalidArgument):
            self.client.watch("a\0b")

    def test_callback(self) -> None:
        events: queue.Queue[holdfast.Event] = queue.Queue()
        reported: list[object] = []
        hook, threading.excepthook = threading.excepthook, reported.append
        self.addCleanup(setattr, threading, "excepthook", hook)

        def callback(event: holdfast.Event) -> None:
            events.put(event)
            if len(reported) == 0:
                raise KeyError("the callback's own")

        self.client.watch("")
        with self.client.listen(callback) as listener:
            for name in ("callback-1", "callback-2"):
                with self.client.lock(name):
                    while events.get(timeout=GUARD_S).name != name:
                        pass
        self.assertEqual(len(reported), 1)
        self.assertFalse(listener._thread.is_alive())
        listener.close()

    def test_close_ends_the_listener(self) -> None:
        client = holdfast.Client()
        listener = client.listen(lambda event: None)
        time.sleep(0.1)  # most likely the thread sleeps by now
        client.close()
        self.assertFalse(listener._thread.is_alive())

    def test_listener_that_ends_itself(self) -> None:
        self.client.watch("")
        seen: list[holdfast.Event] = []

        def callback(event: holdfast.Event) -> None:
            seen.append(event)
            listener.close()

        listener = self.client.listen(callback)
        with self.client.lock("itself"):
            listener._thread.join(GUARD_S)
        self.assertEqual(len(seen), 1)

    async def test_asyncio(self) -> None:
        lock = self.client.lock("asyncio", lease=0.1)
        kinds = []
        self.client.watch("asyncio-watched")
        async with asyncio.timeout(GUARD_S):
            hold = await lock.acquire_async()
            events = self.client.events()
            async for event in events:
                kinds.append(event.kind)
                if event.kind == EventKind.LOST:
                    self.assertIs(event.hold, hold)
                    self.assertEqual(event.why, ReasonKind.LEASE_OVER)
                    self.client.lock("asyncio-watched").acquire().release()
                if event.kind == EventKind.CHANGED and EventKind.LOST in kinds:
                    self.assertEqual(event.name, "asyncio-watched")
                    break
            await events.aclose()
        with self.assertRaises(holdfast.LockLost):
            hold.release()

    async def test_asyncio_after_close(self) -> None:
        """close() ends an `async for` that waits for events."""
        client = holdfast.Client()

        async def listen() -> None:
            async for _ in client.events():
                pass

        task = asyncio.create_task(listen())
        await asyncio.sleep(0.05)
        client.close()
        async with asyncio.timeout(GUARD_S):
            with self.assertRaises(holdfast.Closed):
                await task


if __name__ == "__main__":
    unittest.main()
