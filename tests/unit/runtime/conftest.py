"""What tests of sessions share: an executable, a session, and every work queue."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import hlo2tx8
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.runtime.work_queues import ExternalQueue, OneComputeTwoTransfers, SingleStream, WorkQueue
from tests.unit.runtime.session_data import SUM

QUEUES: dict[str, Callable[[], WorkQueue]] = {
    "single": SingleStream,
    "1c2t": OneComputeTwoTransfers,
    "external": lambda: ExternalQueue(ThreadPoolExecutor(4)),
}


@pytest.fixture(scope="module")
def executable() -> Executable:
    compiled = hlo2tx8.compile(SUM)
    assert isinstance(compiled, Executable)
    return compiled


@pytest.fixture
def session(executable: Executable) -> Iterator[hlo2tx8.Session]:
    with hlo2tx8.Session() as made:
        made.load(executable)
        yield made


@pytest.fixture(params=QUEUES)
def queue(request: pytest.FixtureRequest) -> Iterator[WorkQueue]:
    made = QUEUES[request.param]()
    yield made
    made.close()
