"""Several compilers at a time: processes that are told jobs and answer with judgements.

Compiling holds Python's lock and changes what belongs to a process (its standard error, Triton's settings), so threads do not help.
The processes are started anew rather than forked, which would copy the threads and locks of torch, and do not import the program that
started them.  What they are told comes from this process through a pipe, and so do the answers; nobody else can write there.
"""

from __future__ import annotations

import copyreg
import math
import os
import pickle
import select
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from types import MappingProxyType, TracebackType
from typing import IO

from .judging import Job, Judged, judged, remember, remembered

MOST_WORKERS = 8
WORKER_BYTES = 1 << 30  # of memory that a worker may take, about
JOB_SECONDS = 60.0  # that one kernel may take
_START = "from eqfuse.runtime.compilers import serve; serve()"


def workers_for(jobs: int) -> int:
    """How many processes are worth starting for so many jobs: as many as there are processors, and memory for; 1 for none."""
    able = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        room = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // WORKER_BYTES
    except (AttributeError, OSError, ValueError):
        room = MOST_WORKERS
    return max(1, min(able, jobs, room, MOST_WORKERS))


class Compilers:
    """Judges jobs, in as many processes as ``workers``; in this one if that is 1.  A context: the processes end with it."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._idle: SimpleQueue[_Worker | None] = SimpleQueue()
        self._started: list[_Worker] = []
        for _ in range(workers):
            self._idle.put(None)  # one that is started when it is needed

    def __enter__(self) -> Compilers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for worker in self._started:
            worker.end()

    def __call__(
        self, jobs: Sequence[Job], most: float = math.inf, deadline: float = math.inf, tick: Callable[[], None] = lambda: None
    ) -> list[Judged | None]:
        """The judgement of each job, from disk where it is known; ``None`` for those that were not begun before the ``deadline`` of
        :func:`time.monotonic`.  ``tick`` is called after each."""

        def one(job: Job) -> Judged | None:
            found = remembered(job, most)
            if found is None and time.monotonic() < deadline:
                found = judged(job, most) if self.workers == 1 else self._elsewhere(job, most)
                remember(job, found)
            tick()
            return found

        if self.workers == 1:
            return [one(job) for job in jobs]
        with ThreadPoolExecutor(self.workers) as threads:
            return list(threads.map(one, jobs))

    def _elsewhere(self, job: Job, most: float) -> Judged:
        worker = self._idle.get()
        try:
            if worker is None or not worker.alive:
                worker = _Worker()
                self._started.append(worker)
            return worker.ask(job, most)
        finally:
            self._idle.put(worker)


def read_only(items: dict[str, object]) -> MappingProxyType[str, object]:
    """A read-only mapping."""
    return MappingProxyType(items)


def _send(x: object, to: IO[bytes]) -> None:
    """Write a value, of which targets have read-only mappings, which pickle does not know."""
    pickler = pickle.Pickler(to)
    pickler.dispatch_table = {**copyreg.dispatch_table, MappingProxyType: lambda m: (read_only, (dict(m),))}
    pickler.dump(x)


class _Worker:
    """A process that answers."""

    def __init__(self) -> None:
        unset = ("TRITON_INTERPRET", "EQFUSE_DEBUG", "TRITON_KERNEL_DUMP")
        env = {k: v for k, v in os.environ.items() if k not in unset}
        env |= {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        self.process = subprocess.Popen([sys.executable, "-c", _START], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def ask(self, job: Job, most: float) -> Judged:
        """The judgement of one job; one that takes too long, or that ends the process, is refused."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            _send((job, most), self.process.stdin)
            self.process.stdin.flush()
            if not select.select([self.process.stdout], [], [], JOB_SECONDS)[0]:
                self.end()
                return Judged(refused=f"it takes more than {JOB_SECONDS:.0f} s to compile")
            found = pickle.load(self.process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            self.end()
            return Judged(refused=f"the compiler ended with status {self.process.returncode}")
        assert isinstance(found, Judged)
        return found

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


def serve() -> None:
    """What a worker runs: jobs from its standard input, answers to its standard output, which is kept from everybody else."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            job, most = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(judged(job, most), answers)
        answers.flush()
