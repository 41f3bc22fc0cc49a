from collections.abc import Iterator

import pytest

from tests.forks import Forks


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """Children that have imported jax already."""
    found = Forks()
    yield found
    found.close()
