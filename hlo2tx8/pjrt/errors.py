"""Python exceptions as PJRT errors: jax raises JaxRuntimeError with `CODE: message`."""

import enum

from hlo2tx8.errors import (
    CapacityError,
    ContainerError,
    DeviceError,
    Hlo2tx8Error,
    HostError,
    InputError,
    PodError,
    UnsupportedError,
)


class Code(enum.IntEnum):
    """PJRT_Error_Code."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    NOT_FOUND = 5
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


CODES: tuple[tuple[type[BaseException], Code], ...] = (
    (UnsupportedError, Code.UNIMPLEMENTED),
    (NotImplementedError, Code.UNIMPLEMENTED),
    (CapacityError, Code.RESOURCE_EXHAUSTED),
    (MemoryError, Code.RESOURCE_EXHAUSTED),
    (InputError, Code.INVALID_ARGUMENT),
    (ContainerError, Code.INVALID_ARGUMENT),
    (PodError, Code.UNAVAILABLE),
    (HostError, Code.FAILED_PRECONDITION),
    (DeviceError, Code.INTERNAL),
    (KeyboardInterrupt, Code.CANCELLED),
)
"""First match wins; everything else is INTERNAL."""


class PjrtError(Exception):
    """A failure with its PJRT code."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def code_and_message(error: BaseException) -> tuple[Code, str]:
    """What jaxlib gets to see of an exception."""
    if isinstance(error, PjrtError):
        return error.code, error.message
    code = next((code for kind, code in CODES if isinstance(error, kind)), Code.INTERNAL)
    if isinstance(error, Hlo2tx8Error):
        return code, str(error)
    return code, f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


FORKED = "the process was forked after it had used tx8; multiprocessing's start methods 'spawn' and 'forkserver' do not"
