"""A limit of time for work that may never end, as a random program on a broken tree may not: an exception at the place where it is.

A signal interrupts Python code.  Native code (the e-graph engine, a numpy loop) is interrupted only when it returns: if it does not, a
thread tells where it is, and nothing but the end of the process helps; and if that thread cannot run either, because the native code
holds the interpreter's lock, the process is ended with the stacks of all its threads.
"""

from __future__ import annotations

import faulthandler
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

CLOCK = 10.0  # seconds by the clock for a second of processor time: a machine may be busy, and what waits for ever takes no processor
GRACE = 60.0  # seconds by the clock that native code has to return
FRAMES = 12  # of a stack that are told: the innermost


class TooLong(BaseException):
    """Something took longer than it may; ``stack``: where it was.  No ``Exception``: what handles these is not what this is for."""

    def __init__(self, words: str, stack: str) -> None:
        self.stack = stack
        super().__init__(words)


@contextmanager
def limited(seconds: float, stuck: Callable[[str, str], None] | None = None) -> Iterator[None]:
    """Raises :class:`TooLong` inside after ``seconds`` of processor time, or ``CLOCK`` times as much by the clock; never if 0.

    ``stuck``: called in another thread with the words and the stack if native code still runs ``GRACE`` seconds later; it must end the
    process, which is ended anyway soon after.  Without it native code is waited for.  Limits do not nest, and only the main thread has any.
    """
    if not seconds or not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    watch = _Watch(seconds, stuck)
    try:
        watch.start()
        yield
    finally:
        watch.stop()


class _Watch:
    SIGNALS = ("SIGPROF", "SIGALRM")

    def __init__(self, seconds: float, stuck: Callable[[str, str], None] | None) -> None:
        self.seconds, self.stuck = seconds, stuck
        self.done = threading.Event()
        self.begun = time.process_time(), time.monotonic()
        self.thread = threading.Thread(target=self.look, args=(threading.get_ident(),), daemon=True)

    def start(self) -> None:
        """From here on the time counts."""
        self.before = [signal.signal(getattr(signal, name), self.over) for name in self.SIGNALS]
        self.timers = (
            signal.setitimer(signal.ITIMER_PROF, self.seconds), signal.setitimer(signal.ITIMER_REAL, self.seconds * CLOCK),
        )  # fmt: skip
        if self.stuck is not None:
            self.thread.start()
            faulthandler.dump_traceback_later(self.seconds * CLOCK + 3 * GRACE, exit=True, file=sys.__stderr__ or sys.stderr)

    def stop(self) -> None:
        """It ended in time, or was ended; other people's timers go on."""
        self.done.set()
        spent = time.monotonic() - self.begun[1]
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for name, handler in zip(self.SIGNALS, self.before, strict=True):
            signal.signal(getattr(signal, name), handler)
        left, again = self.timers[1]
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - spent, 1e-3), again)
        if self.stuck is not None:
            faulthandler.cancel_dump_traceback_later()

    def words(self) -> str:
        """Which limit is over; nothing if none is."""
        if time.process_time() - self.begun[0] >= self.seconds:
            return f"took longer than {self.seconds:g} s of processor time"
        if time.monotonic() - self.begun[1] >= self.seconds * CLOCK:
            return f"took longer than {self.seconds * CLOCK:g} s by the clock, for a limit of {self.seconds:g} s of processor time"
        return ""

    def over(self, number: int, frame: FrameType | None) -> None:
        """The signal, in the main thread: raised once."""
        if not self.done.is_set():
            self.done.set()
            raise TooLong(self.words() or f"took longer than {self.seconds:g} s of processor time", _stack(frame))

    def look(self, main: int) -> None:
        """The thread: whether the signal that is due comes through."""
        assert self.stuck is not None
        while not self.words():
            if self.done.wait(1.0):
                return
        if not self.done.wait(GRACE):
            self.stuck(f"{self.words()}, in native code that does not return", _stack(sys._current_frames().get(main)))


def _stack(frame: FrameType | None) -> str:
    """The innermost frames, the outermost of them first."""
    return "".join(traceback.format_stack(frame)[-FRAMES:]).rstrip() if frame is not None else ""
