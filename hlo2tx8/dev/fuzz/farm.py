"""Many seeds on several processes: what one of them dies of is a finding, and another takes its place.

seeds ──▶ worker 0..n-1 (`fuzz.worker`) ──▶ {seed, seconds}                       all is well
                                        ──▶ {seed, run, kind, message, module}    a failure, then its smaller module
          dies ──▶ kind "crash", with the last lines of its stderr
          says nothing for longer than the limit ──▶ kind "hang", and it is killed
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from hlo2tx8.dev.fuzz.worker import case_of, write_module

STARTUP_SECONDS = 60.0
SHRINK_SECONDS = 900.0
SEEDS_PER_WORKER = 400
"""Then a new process: what leaks in one stays small."""
TAIL_BYTES = 2000


@dataclass(frozen=True)
class Finding:
    """A seed that failed: in which run, how, and the module that shows it."""

    seed: int
    run: str
    kind: str
    message: str
    module: str


@dataclass(frozen=True)
class Plan:
    """Which seeds, how many at once, and what each may take."""

    seeds: Sequence[int]
    jobs: int
    limit: float
    write: Path
    grace: float = 30.0  # a worker over its limit tells so itself; this much later it is taken to be stuck
    cpu: bool = True
    control: bool = True

    def command(self) -> list[str]:
        """How to start a worker."""
        switches = ["--cpu" if self.cpu else "--no-cpu", "--control" if self.control else "--no-control"]
        module = [sys.executable, "-m", "hlo2tx8.dev.fuzz.worker"]
        return [*module, *switches, f"--limit={self.limit}", f"--write={self.write}"]


@dataclass
class FuzzWorker:
    """A process and the seed it works on."""

    process: subprocess.Popen[bytes]
    errors: IO[bytes]
    given: int = 0
    seed: int | None = None
    failure: Finding | None = None
    deadline: float = 0.0
    unread: bytes = b""

    @staticmethod
    def start(command: Sequence[str], processor: int | None) -> "FuzzWorker":
        """A new process in a group of its own, so that its children end with it; bound to a processor if one is given."""
        errors = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the worker)
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, start_new_session=True)
        if processor is not None:
            with suppress(OSError):
                os.sched_setaffinity(process.pid, {processor})
        return FuzzWorker(process, errors)

    def give(self, seed: int, seconds: float) -> bool:
        """Hand it a seed, to be answered within that time; False if it is gone."""
        assert self.process.stdin is not None
        first = 0.0 if self.given else STARTUP_SECONDS
        self.seed, self.failure, self.given = seed, None, self.given + 1
        self.deadline = time.monotonic() + seconds + first
        try:
            self.process.stdin.write(f"{seed}\n".encode())
            self.process.stdin.flush()
        except OSError:
            return False
        return True

    def lines(self) -> Iterator[bytes] | None:
        """The whole lines that have come; None at the end."""
        assert self.process.stdout is not None
        data = os.read(self.process.stdout.fileno(), 1 << 16)
        if not data:
            return None
        *whole, self.unread = (self.unread + data).split(b"\n")
        return iter(whole)

    def end(self) -> str:
        """Kill it and its children; what it died of."""
        with suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        code = self.process.wait()
        self.errors.seek(max(0, self.errors.seek(0, os.SEEK_END) - TAIL_BYTES))
        tail = self.errors.read().decode(errors="replace").strip()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        died = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return f"{died}: {tail}" if tail else died


@dataclass
class Farm:
    """Runs a plan. `report` is told each finding, twice where a smaller module was found."""

    plan: Plan
    report: Callable[[Finding], None]
    done: dict[int, float] = field(default_factory=dict[int, float])
    findings: dict[int, Finding] = field(default_factory=dict[int, Finding])
    workers: dict[int, FuzzWorker] = field(default_factory=dict[int, FuzzWorker])
    died_at_start: int = 0

    def run(self, tick: Callable[["Farm"], None] = lambda _: None) -> None:
        """All seeds; `tick` is called about once a second. Whatever ends this ends the workers."""
        waiting = iter(self.plan.seeds)
        jobs = min(self.plan.jobs, len(self.plan.seeds))
        try:
            for slot in range(jobs):
                self._next(slot, waiting)
            while self.workers:
                self._wait(waiting)
                tick(self)
        finally:
            for worker in self.workers.values():
                worker.end()
            self.workers.clear()

    def _wait(self, waiting: Iterator[int]) -> None:
        """Hear what workers say for a second, and end those that have been silent for too long."""
        with selectors.DefaultSelector() as selector:
            for slot, worker in self.workers.items():
                assert worker.process.stdout is not None
                selector.register(worker.process.stdout, selectors.EVENT_READ, slot)
            for key, _ in selector.select(timeout=1.0):
                self._hear(key.data, waiting)
        now = time.monotonic()
        for slot in [slot for slot, w in self.workers.items() if w.seed is not None and now > w.deadline]:
            self._lost(slot, "hang", waiting)

    def _hear(self, slot: int, waiting: Iterator[int]) -> None:
        worker = self.workers[slot]
        lines = worker.lines()
        if lines is None:
            self._lost(slot, "crash", waiting)
            return
        for line in lines:
            answer: dict[str, Any] = json.loads(line)
            seed = int(answer["seed"])
            self.done[seed] = float(answer.get("seconds", self.done.get(seed, 0.0)))
            if "kind" in answer:
                worker.failure = Finding(seed, answer["run"], answer["kind"], answer["message"], answer["module"])
                self._found(worker.failure)
                if answer["shrinks"]:
                    worker.deadline = time.monotonic() + SHRINK_SECONDS
                    continue
                worker.end()
                del self.workers[slot]
            elif worker.failure is not None:
                self._found(replace(worker.failure, module=answer["module"]))
            self._next(slot, waiting)
            return

    def _found(self, finding: Finding) -> None:
        self.findings[finding.seed] = finding
        self.report(finding)

    def _lost(self, slot: int, kind: str, waiting: Iterator[int]) -> None:
        """A worker died or is stuck: that is what its seed did, unless that one had told its failure already."""
        worker = self.workers.pop(slot)
        died = worker.end()
        seed = worker.seed
        if seed is not None and worker.failure is None:
            message = f"no answer within {self.plan.limit:g} s" if kind == "hang" else died
            path = self.plan.write / f"seed_{seed}.hlo"
            case = case_of(seed, control=self.plan.control)
            self._found(Finding(seed, "process", kind, message, str(write_module(case, f"{kind}: {message}", path))))
            self.done[seed] = self.plan.limit
        self._next(slot, waiting)

    def _next(self, slot: int, waiting: Iterator[int]) -> None:
        """The next seed for the slot's worker, a new one where there is none or the old one is old."""
        worker = self.workers.get(slot)
        seed = next(waiting, None)
        if worker is not None and (seed is None or worker.given >= SEEDS_PER_WORKER):
            self.workers.pop(slot).end()
            worker = None
        if seed is None:
            return
        if worker is None:
            worker = self.workers[slot] = FuzzWorker.start(self.plan.command(), _processor(slot, self.plan.jobs))
        if not worker.give(seed, self.plan.limit + self.plan.grace):
            # It is read as having ended, which says why.
            worker.deadline = time.monotonic() + self.plan.grace

    def result(self) -> dict[str, Any]:
        """What is known so far, for a file: seeds and failures by seed, and what took longest."""
        slowest = sorted(self.done, key=lambda seed: (-self.done[seed], seed))[:10]
        return {
            "first_seed": self.plan.seeds[0] if self.plan.seeds else 0,
            "count": len(self.plan.seeds),
            "checked": len(self.done),
            "failed_seeds": sorted(self.findings),
            "failures": [asdict(self.findings[seed]) for seed in sorted(self.findings)],
            "slowest": [{"seed": seed, "seconds": self.done[seed]} for seed in slowest],
        }


def _processor(slot: int, jobs: int) -> int | None:
    """A processor for each worker where there are enough: the libraries then start one thread, not one per processor."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    own = sorted(os.sched_getaffinity(0))
    return own[slot] if jobs <= len(own) else None
