"""How large a module gets when each call is the body of what it calls: calls of calls multiply. Of one that would be too large,
large functions that are called more than once stay functions; so do those that the source says are not to be inlined, and those
that it gives tiles of their own.

    f40 calls f39 twice, f39 calls f38 twice ...        2^40 bodies of f0, or 40 functions
"""

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hlo2tx8.errors import CapacityError
from hlo2tx8.frontend.locations import LocationReader
from hlo2tx8.hlo.module import NO_INLINE
from hlo2tx8.hlo.placement import FRONTEND, TILES
from hlo2tx8.hlo.regions import CALL, CONTROL

FEW_OPS = 1 << 14
"""Of a module in which every call is a body: what is computed where it is called can be fused with what is around it."""
LARGE_OPS = 64
"""Of a function that may stay one."""
MOST_OPS = 1 << 20
"""Of a function with the bodies that stand for calls; the compiler takes some tenths of a millisecond for each."""
MOST_CALLS = 256
"""Inside each other, of functions that stay functions."""
_OF_MAIN = (
    *("stablehlo.all_gather", "stablehlo.all_reduce", "stablehlo.all_to_all", "stablehlo.collective_broadcast"),
    *("stablehlo.collective_permute", "stablehlo.reduce_scatter", "stablehlo.partition_id", "stablehlo.replica_id"),
    *("stablehlo.infeed", "stablehlo.outfeed", "stablehlo.send", "stablehlo.recv", "stablehlo.custom_call"),
)
"""Ops that are not the chip's alone: the host looks for them in @main."""


class _Site(NamedTuple):
    """A call, and whether it stands in a region that combines elements, where it has to be a body."""

    callee: str
    is_scalar: bool


def functions_that_stay(functions: Mapping[str, Any], callable: Container[str], locations: LocationReader) -> frozenset[str]:
    """The functions that stay functions, of `callable`, those whose bodies can stand for calls; none where there is recursion,
    which is found elsewhere. CapacityError for the first function that has too many operations nevertheless, and for calls too
    deep.
    """
    inside = {name: list(_ops_in(op)) for name, op in functions.items()}
    sites = {name: [_Site(_callee(op), is_scalar) for op, is_scalar in ops if op.name == CALL] for name, ops in inside.items()}
    sites = {name: [site for site in found if site.callee in callable] for name, found in sites.items()}
    order = _callees_first(sites)
    if order is None:
        return frozenset()
    whole: dict[str, int] = {}
    for name in order:
        whole[name] = len(inside[name]) + sum(whole[site.callee] for site in sites[name])
    is_large = max(whole.values(), default=0) > max(FEW_OPS, 4 * sum(map(len, inside.values())))
    placed = _placed(inside)
    asked = [name for name in order if NO_INLINE in functions[name].attributes or name in placed]
    if not is_large and not asked:
        return frozenset()
    bound = _bound(order, functions, inside, sites)
    uses = Counter(site.callee for found in sites.values() for site in found if not site.is_scalar)
    staying: set[str] = set()
    sizes: dict[str, int] = {}
    depths: dict[str, int] = {}
    for name in order:
        kept = [site.callee for site in sites[name] if site.callee in staying and not site.is_scalar]
        bodies = [(whole if site.is_scalar else sizes)[site.callee] for site in sites[name] if site.callee not in kept]
        sizes[name] = len(inside[name]) + sum(bodies)
        depths[name] = max((depths[site.callee] + (site.callee in kept) for site in sites[name]), default=0)
        if name not in bound and (name in asked or (is_large and sizes[name] > LARGE_OPS and uses[name] > 1)):
            staying.add(name)
        if sizes[name] > MOST_OPS or depths[name] > MOST_CALLS:
            what = f"{sizes[name]:,} operations when each call is the body of what it calls"
            raise CapacityError(
                "E1005",
                f"@{name} has {what if sizes[name] > MOST_OPS else 'calls too deep inside each other'}",
                origin=locations.text(functions[name].location, ""),
                hint=f"at most {MOST_OPS:,}, and {MOST_CALLS} calls; what is called again and again may be the body of a loop",
            )
    return frozenset(staying)


def _bound(
    order: Sequence[str], functions: Mapping[str, Any], inside: Mapping[str, Any], sites: Mapping[str, Sequence[_Site]]
) -> set[str]:
    """The functions whose bodies must stand for their calls: with tokens or tuples, and with ops that belong into @main, also in
    what they call."""
    found: set[str] = set()
    for name in order:
        kind = functions[name].attributes["function_type"].value
        is_of_tensors = all(str(type_).startswith("tensor<") for type_ in (*kind.inputs, *kind.results))
        has_host_ops = any(op.name in _OF_MAIN for op, _ in inside[name]) or any(site.callee in found for site in sites[name])
        if has_host_ops or not is_of_tensors:
            found.add(name)
    return found


def _callees_first(sites: Mapping[str, Sequence[_Site]]) -> list[str] | None:
    """The functions, each behind those that it calls; None if one calls itself."""
    done: dict[str, None] = {}
    for root in sites:
        waiting, active = [root], {root}
        while waiting:
            new = next((site.callee for site in sites[waiting[-1]] if site.callee not in done), None)
            if new is None:
                active.discard(waiting[-1])
                done[waiting.pop()] = None
            elif new in active:
                return None
            else:
                waiting.append(new)
                active.add(new)
    return list(done)


def _ops_in(root: Any, is_scalar: bool = False) -> Iterator[tuple[Any, bool]]:
    """All operations inside of one, at any depth, and whether one around them combines elements."""
    waiting = [(root, is_scalar)]
    while waiting:
        outer, is_scalar = waiting.pop()
        for op in (op.operation for region in outer.regions for block in region.blocks for op in block.operations):
            yield op, is_scalar
            if len(op.regions):
                waiting.append((op, is_scalar or op.name not in CONTROL))


def _placed(inside: Mapping[str, Sequence[tuple[Any, bool]]]) -> set[str]:
    """The functions of which a call says on which tiles it runs; what they call runs there too, whatever is said of it."""
    placed: set[str] = set()
    waiting, seen = ["main"], {"main"}
    while waiting:
        for op in (op for op, is_scalar in inside.get(waiting.pop(), ()) if op.name == CALL and not is_scalar):
            name = _callee(op)
            if FRONTEND in op.attributes and TILES in op.attributes[FRONTEND]:
                placed.add(name)
            elif name not in seen:
                seen.add(name)
                waiting.append(name)
    return placed


def _callee(op: Any) -> str:
    """The function that a call names."""
    return op.attributes["callee"].value
