import signal

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so it is in a shell's background, and children would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="store today's listings and numbers under tests/golden")
