"""Ops with graphs inside, and ops on sequences, which are tuples of values while a model is traced."""

# pyright: basic

from collections.abc import Callable
from typing import Any

CONTROL: dict[str, Callable[..., Any]] = {}
