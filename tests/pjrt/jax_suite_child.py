"""The child of jax_suite.py: pytest on a shard of one file with the plugin registered; outcomes are written as they come."""

import faulthandler
import json
import os
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any, cast
from zlib import crc32

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

import hlo2tx8.pjrt


class Recorder:
    """Writes a line when a test starts and one when it ends; leaves out the tests that a log of the file has already."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.task = task
        log = Path(task["log"])
        logs = log.parent.glob(f"{log.name.split('.', maxsplit=1)[0]}.*.jsonl")
        self.done = {json.loads(line)["test"] for found in logs for line in found.read_text().splitlines()}
        self.only = None if task["only"] is None else set(Path(task["only"]).read_text().splitlines())
        self.file = log.open("a")
        self.skipped = ""
        self.stderr = os.dup(2)  # pytest puts its own in the place

    def write(self, test: str, outcome: str, message: str = "") -> None:
        self.file.write(json.dumps({"test": test, "outcome": outcome, "message": message}) + "\n")
        self.file.flush()

    def is_mine(self, test: str) -> bool:
        """Does the shard run the test, and has nobody run it yet?"""
        number = crc32(test.encode())
        chosen = number // self.task["count"] % 10_000 < 10_000 * self.task["sample"] if self.only is None else test in self.only
        return chosen and number % self.task["count"] == self.task["number"] and test not in self.done

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if self.is_mine(name_of(item.nodeid))]
        items.sort(key=lambda item: crc32(item.nodeid.encode()[::-1]))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if time.time() > self.task["end"]:
            pytest.exit("out of time", 0)
        faulthandler.dump_traceback_later(self.task["timeout"], exit=True, file=self.stderr)
        self.write(name_of(nodeid), "started")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """What comes after a skipped test does not count: jax's teardown complains of the cache that an interrupted setUp left."""
        is_after_skip = report.when == "teardown" and report.nodeid == self.skipped
        if is_after_skip and report.outcome != "passed":
            compilation_cache.reset_cache()
        self.skipped = report.nodeid if report.outcome == "skipped" else self.skipped
        if (report.when == "call" or report.outcome != "passed") and not is_after_skip:
            text = report.longreprtext
            self.write(name_of(report.nodeid), report.outcome, text if len(text) < 8000 else text[:2000] + text[-6000:])

    def pytest_sessionfinish(self) -> None:
        faulthandler.cancel_dump_traceback_later()


def name_of(nodeid: str) -> str:
    """Class and test, without the file."""
    return nodeid.partition("::")[2]


def main(task: dict[str, Any]) -> int:
    """0 if every test was run, or the time is up, whatever the outcomes."""
    hlo2tx8.pjrt.initialize()
    if task["is_cpu"]:
        import_module("jax._src.test_util")  # it has the option
        cast(Any, jax.config).update("jax_test_dut", "cpu")
    arguments = ["-q", "-s", "-p", "no:cacheprovider", "-W", "ignore", "--tb=short", "-k", task["k"], "--no-header", task["file"]]
    code = pytest.main(arguments, plugins=[Recorder(task)])
    return 0 if code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED) else int(code)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
