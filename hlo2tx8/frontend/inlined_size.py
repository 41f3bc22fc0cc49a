"""How many operations a module has when each call is the body of what it calls: calls of calls multiply, and may be too many."""

from collections.abc import Container, Mapping
from typing import Any

from hlo2tx8.errors import CapacityError
from hlo2tx8.frontend.locations import LocationReader

MOST_OPS = 1 << 20
"""Of a function with the bodies of all it calls; the compiler takes some tenths of a millisecond for each."""


def check_inlined_size(functions: Mapping[str, Any], callable: Container[str], locations: LocationReader) -> None:
    """CapacityError for the first function that has too many; `callable` are those whose bodies can stand for calls. Recursion is
    not found here.
    """
    inside = {name: _ops_in(op) for name, op in functions.items()}
    calls = {
        name: [callee for op in ops if op.name == "func.call" if (callee := op.attributes["callee"].value) in callable]
        for name, ops in inside.items()
    }
    sizes: dict[str, int] = {}
    for root in functions:
        waiting, asked = [root], {root}
        while waiting:
            name = waiting[-1]
            new = [callee for callee in dict.fromkeys(calls[name]) if callee not in sizes and callee not in asked]
            waiting += new
            asked.update(new)
            if new:
                continue
            waiting.pop()
            sizes[name] = len(inside[name]) + sum(sizes.get(callee, 0) for callee in calls[name])
            if sizes[name] > MOST_OPS:
                raise CapacityError(
                    "E1005",
                    f"@{name} has {sizes[name]:,} operations when each call is the body of what it calls",
                    origin=locations.text(functions[name].location, ""),
                    hint=f"at most {MOST_OPS:,}; what is called again and again may be the body of a loop",
                )


def _ops_in(root: Any) -> list[Any]:
    """All operations inside of one, at any depth."""
    found: list[Any] = []
    waiting = [root]
    while waiting:
        ops = [op.operation for region in waiting.pop().regions for block in region.blocks for op in block.operations]
        found += ops
        waiting += [op for op in ops if len(op.regions)]
    return found
