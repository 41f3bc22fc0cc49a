"""Sessions under load: `python -m benchmarks.serving --contexts=100 --requests=10000` prints, for each work queue, runs per second,
latencies, wrong answers, and what memory a second round needs beyond the first.

Every context has a thread, arrays of its own and one of two programs; results are compared bit for bit with Executable's.
"""

import argparse
import gc
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import hlo2tx8
from hlo2tx8.runtime.allocators import Arena
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.runtime.work_queues import ExternalQueue, OneComputeTwoTransfers, SingleStream, WorkQueue

SOURCE = """HloModule rows{rows}
ENTRY main {{
  x = f32[{rows},64] parameter(0)
  y = f32[{rows},64] parameter(1)
  s = f32[{rows},64] add(x, y)
  ROOT t = f32[{rows},64] tanh(s)
}}
"""
QUEUES: dict[str, Callable[[], WorkQueue]] = {
    "single stream": SingleStream,
    "1 compute, 2 transfers": OneComputeTwoTransfers,
    "external, 8 threads": lambda: ExternalQueue(ThreadPoolExecutor(8)),
}


def resident_mib() -> float:
    """Memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


class Load:
    """Contexts that run requests at once: `wrong` answers are not Executable's, `seconds` has the latency of each request."""

    def __init__(self, session: hlo2tx8.Session, programs: list[Executable], num_requests: int) -> None:
        self.session, self.programs, self.num_requests = session, programs, num_requests
        self.wrong = 0
        self.seconds: list[float] = []

    def serve(self, number: int) -> None:
        """One context's requests; every third context has its arrays moved."""
        program, rng = self.programs[number % len(self.programs)], np.random.default_rng(number)
        request = self.session.new_request_context(model=program.name)
        x, y = (rng.standard_normal(port.shape, np.float32) for port in program.signature.inputs)
        for offset, array in enumerate((x, y)):
            request.bind_arg(offset, array, space="ddr" if number % 3 else "host")
        request.finish_io_binding()
        (wanted,) = program.execute(x, y)
        for _ in range(self.num_requests):
            started = time.perf_counter()
            (found,) = request.run().result()
            self.seconds.append(time.perf_counter() - started)
            self.wrong += found.tobytes() != wanted.tobytes()
            found[...] = 0

    def round(self, num_contexts: int) -> float:
        """Seconds that all contexts together take."""
        threads = [threading.Thread(target=self.serve, args=(number,)) for number in range(num_contexts)]
        started = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.perf_counter() - started


def main() -> int:
    """Prints the table; 1 if an answer was wrong or memory is still in use."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contexts", type=int, default=100)
    parser.add_argument("--requests", type=int, default=10_000, help="of all contexts together, in each of two rounds")
    args = parser.parse_args()
    programs = [program for rows in (16, 700) if isinstance(program := hlo2tx8.compile(SOURCE.format(rows=rows)), Executable)]
    failed = False
    for name, make in QUEUES.items():
        arena, queue = Arena(), make()
        session = hlo2tx8.Session(allocator=arena, queue=queue)
        for program in programs:
            session.load(program)
        load = Load(session, programs, args.requests // args.contexts)
        load.round(args.contexts)
        gc.collect()
        before, load.seconds = resident_mib(), []
        took = load.round(args.contexts)
        queue.close()
        gc.collect()
        time.sleep(0.2)  # threads of the queue let go of the last run
        median, late = np.quantile(load.seconds, (0.5, 0.99)) * 1e3
        held = arena.statistics.in_use_bytes
        print(
            f"{name:<24} {len(load.seconds) / took:8,.0f} runs/s   median {median:.1f} ms, 99% {late:.1f} ms  {load.wrong} wrong  "
            f"{resident_mib() - before:+.1f} MiB   {held} bytes held of {arena.statistics.peak_bytes:,}"
        )
        failed |= bool(load.wrong or held)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
