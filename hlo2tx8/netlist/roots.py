"""Which IOs the host fills with numbers that are not negative: a root is taken of what ops make of them.

A host that pushes random numbers would otherwise stop netlists that normalise a tensor, whose constants are like no random numbers.
"""

from collections.abc import Iterator, Sequence

from hlo2tx8.netlist.model import FusedOp, Netlist, Op

ANY_SIGN = ("square", "abs", "exp", "sigmoid", "subtract", "log", "sine", "cosine", "gelu_derivative")
"""Types that make what they make whatever the sign of their inputs is; the others make no negative numbers of such that are not."""


def under_roots(netlist: Netlist) -> frozenset[str]:
    """The names of the IOs."""
    ops = netlist.ops
    waiting = [name for op in ops.values() for name in _wanted(netlist, op, is_wanted=False)]
    seen: set[str] = set()
    while waiting:
        if (name := waiting.pop()) in seen:
            continue
        seen.add(name)
        if name in netlist.queues:
            waiting.append(netlist.queues[name].input)
        elif name in ops:
            waiting += _wanted(netlist, ops[name], is_wanted=True)
    return frozenset(seen & netlist.queues.keys())


def _wanted(netlist: Netlist, op: Op, *, is_wanted: bool) -> Iterator[str]:
    """The inputs of an op that may not be negative, as the op takes roots of them, or as its output may not be."""
    if op.type == "fused_op":
        numbers = _wanted_of_steps(netlist.fused_ops[op.attributes["fused_op_id"]], is_wanted=is_wanted)
        yield from (name for number, name in enumerate(op.inputs) if number in numbers)
    elif _passes(op.type, op.inputs, op.attributes.get("relu_en", False), is_wanted=is_wanted):
        yield from op.inputs


def _wanted_of_steps(fused: FusedOp, *, is_wanted: bool) -> frozenset[int]:
    """The same of a fused op, by number of the input: steps are followed from the last one back."""
    wanted = {"output"} if is_wanted else set[str]()
    for step in reversed(fused.steps):
        passes = _passes(step.type, step.inputs, step.attributes.get("relu_en", False), is_wanted=step.output in wanted)
        wanted -= {step.output}
        if passes:
            wanted |= {*step.inputs}
    return frozenset(int(name.removeprefix("input")) for name in wanted if name.startswith("input"))


def _passes(type: str, inputs: Sequence[str], is_relu: bool, *, is_wanted: bool) -> bool:
    is_square = type == "multiply" and len(set(inputs)) == 1
    return type == "sqrt" or (is_wanted and not is_square and not is_relu and type not in ANY_SIGN)
