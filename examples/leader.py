#!/usr/bin/env python3
"""One leader at a time, in Python.

Usage: leader.py NAME JOURNAL

Several of these processes run at once, on one host or on all hosts of a cell. The one that has the
lock is the leader, and writes to the journal. The others wait; when the leader ends, the next one
leads, and its lines have a higher token.

The leader looks at its hold before each line. That is not enough if it is stopped between the look
and the write: a server in place of the file would refuse a token lower than the highest one that it
has seen (resource.c has such a server).
"""

import signal
import sys
import time

import holdfast


def lead(hold: holdfast.Hold, name: str, journal: str) -> None:
    print(f"{name} leads with token {hold.token}", flush=True)
    while True:
        hold.check()  # raises LockLost if the hold does not count now
        with open(journal, "a") as file:
            file.write(f"{hold.token} {name}\n")
        time.sleep(0.05)


def end(*_: object) -> None:
    raise SystemExit(0)  # leaves the block of the hold, so the next one leads at once


def main() -> None:
    name, journal = sys.argv[1:]
    signal.signal(signal.SIGTERM, end)
    with holdfast.Client() as client:
        lock = client.lock("leader")
        while True:
            try:
                with lock.acquire() as hold:  # waits as long as it takes
                    lead(hold, name, journal)
            except holdfast.LockLost as lost:
                # another process may lead now, so this process waits for its turn again
                print(f"{name} does not lead any more: {lost}", flush=True)


if __name__ == "__main__":
    main()
