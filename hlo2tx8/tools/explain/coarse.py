"""Which coarse ops a module has: those that it names, and those that its instructions compute."""

from collections import Counter
from collections.abc import Iterator

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from hlo2tx8.dialects.hlo import FusionOp, decode_attribute, origin
from hlo2tx8.frontend.types import type_to_text
from hlo2tx8.kernel_registry import REGISTRY
from hlo2tx8.passes.inline_calls import InlineCallsPass
from hlo2tx8.passes.recognize_coarse import recognized_in


def coarse(module: ModuleOp) -> Iterator[str]:
    """A line for each, with what it takes, its attributes and its place; the module is changed."""
    InlineCallsPass().apply(Context(), module)
    found = recognized_in(module)
    if not found:
        yield "No coarse op is named or recognised."
        return
    yield ", ".join(f"{count} {name}" for name, count in Counter(name for name, _, _ in found).items())
    for name, op, recognised in found:
        values = op.operands if recognised is None else recognised.inputs
        attributes = _named(op) if recognised is None else recognised.attributes
        said = ", ".join(f"{key} {value}" for key, value in attributes.items())
        types = ", ".join(type_to_text(value.type) for value in values)
        how = "named by the source" if recognised is None else "recognised"
        yield f"{name}({types}){f' {{{said}}}' if said else ''}, {how}, {origin(op)}"
    names = REGISTRY.names()
    if names:
        yield f"Kernels are registered for {', '.join(names)}."


def _named(op: Operation) -> dict[str, object]:
    return decode_attribute(op.coarse) if isinstance(op, FusionOp) and op.coarse is not None else {}
