"""The child of jax_suite.py: pytest on one file with the plugin registered; outcomes are written as they come."""

import faulthandler
import json
import sys
from pathlib import Path

import pytest

import hlo2tx8.pjrt


class Recorder:
    """Writes a line when a test starts and one when it ends; leaves out the tests that the log has already."""

    def __init__(self, log: Path, timeout: int) -> None:
        lines = log.read_text().splitlines() if log.exists() else []
        self.done = {json.loads(line)["test"] for line in lines}
        self.file = log.open("a")
        self.timeout = timeout

    def write(self, test: str, outcome: str, message: str = "") -> None:
        self.file.write(json.dumps({"test": test, "outcome": outcome, "message": message}) + "\n")
        self.file.flush()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid.partition("::")[2] not in self.done]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        faulthandler.dump_traceback_later(self.timeout, exit=True)
        self.write(nodeid.partition("::")[2], "started")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            text = report.longreprtext
            self.write(report.nodeid.partition("::")[2], report.outcome, text if len(text) < 8000 else text[:2000] + text[-6000:])

    def pytest_sessionfinish(self) -> None:
        faulthandler.cancel_dump_traceback_later()


def main(file: str, log: str, timeout: str, expression: str) -> int:
    """0 if every test was run, whatever its outcome."""
    hlo2tx8.pjrt.initialize()
    code = pytest.main(
        ["-q", "-p", "no:cacheprovider", "-W", "ignore", "--tb=short", "-k", expression, "--no-header", file],
        plugins=[Recorder(Path(log), int(timeout))],
    )
    return 0 if code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED) else int(code)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
