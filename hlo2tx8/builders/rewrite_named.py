"""The worklist that passes over single ops share: find the ops of some names, then rewrite each of them once.

A pass that has nothing to do costs one walk over the names of a module's ops. Ops that a rewrite puts in are for later passes.
"""

from collections.abc import Callable, Container, Mapping
from typing import TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, Region

Rewrite: TypeAlias = Callable[[Operation], object]
"""Replaces an op, or leaves it as it is; what it returns is not looked at."""


def rewrite_named(module: ModuleOp, rewrites: Mapping[str, Rewrite]) -> None:
    """Call the rewrite of its name for each op that the module holds now, an op before those in its regions."""
    for op in ops_named(module, rewrites):
        rewrites[op.name](op)


def ops_named(module: ModuleOp, names: Container[str]) -> list[Operation]:
    """The ops of these names in the order of the text, those in regions included."""
    found: list[Operation] = []
    _collect(module.body, names, found)
    return found


def ops_inside(root: Operation) -> list[Operation]:
    """All ops in the regions of an op, in the order of the text; in a third of the time that `walk` takes."""
    found: list[Operation] = []
    for region in root.regions:
        _collect(region, None, found)
    return found


def _collect(region: Region, names: Container[str] | None, found: list[Operation]) -> None:
    block = region._first_block  # pyright: ignore[reportPrivateUsage] - what `blocks` gives, of each region of each walk
    while block is not None:
        op = block._first_op  # pyright: ignore[reportPrivateUsage]
        while op is not None:
            if names is None or op.name in names:
                found.append(op)
            if op.regions:
                for inner in op.regions:
                    _collect(inner, names, found)
            op = op._next_op  # pyright: ignore[reportPrivateUsage]
        block = block._next_block  # pyright: ignore[reportPrivateUsage]
