"""Nested pipelines: passes on some functions or modules alone, in the text of a pipeline.

    pipeline ::= element ("," element)*
    element  ::= OP filter? "(" pipeline ")"        func.func{fusion=elementwise}(simplify), builtin.module(inline)
               | what xDSL's pipelines have
    filter   ::= "{" (NAME | NAME=VALUE)* "}"       attributes that the op has, with that value

A function gets the passes in a module of its own, in which it is @main; functions that a pass makes there are put behind it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass, PassPipeline
from xdsl.utils.arg_spec import ArgSpec, ParameterListType, parse_spec

from hlo2tx8.dialects.hlo import decode_attribute
from hlo2tx8.errors import InputError

AvailablePasses = dict[str, Callable[[], type[ModulePass]]]
PLACES = (FuncOp.name, ModuleOp.name)

_START = re.compile(r"(?:^|(?<=,))\s*([a-z_]+\.[a-z_.]+)\s*(\{[^{}]*\})?\s*\(")
_QUOTED = re.compile(r'"[^"]*"')


@dataclass(frozen=True)
class NestedPasses(ModulePass):
    """Runs passes on each op that is called `op_name` and has the attributes."""

    name = "nested"
    op_name: ClassVar[str] = ""
    having: ClassVar[Mapping[str, ParameterListType]] = {}
    passes: ClassVar[PassPipeline] = PassPipeline(())

    @classmethod
    def from_spec(cls, spec: ArgSpec) -> "NestedPasses":
        return cls()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for found in [inner for inner in op.walk() if inner.name == self.op_name and self._is_meant(inner)]:
            if isinstance(found, FuncOp):
                with_function_alone(found, lambda module: self.passes.apply(ctx, module))
            elif isinstance(found, ModuleOp):
                self.passes.apply(ctx, found)

    def _is_meant(self, op: Operation) -> bool:
        both: dict[str, Any] = {**op.attributes, **op.properties}
        return all(name in both and (not values or decode_attribute(both[name]) in values) for name, values in self.having.items())


def with_function_alone(function: FuncOp, run: Callable[[ModuleOp], None]) -> None:
    """Run something on a module that has this function alone, as @main; what is there afterwards takes the function's place."""
    parent, name, visibility = function.parent_block(), function.sym_name, function.sym_visibility
    assert parent is not None
    following = function.next_op
    function.detach()
    function.sym_name, function.sym_visibility = StringAttr("main"), None
    alone = ModuleOp([function])
    run(alone)
    function.sym_name, function.sym_visibility = name, visibility
    made = list(alone.body.block.ops)
    _rename([op for op in made if isinstance(op, FuncOp) and op is not function], parent, made)
    for op in made:
        op.detach()
        if following is None:
            parent.add_op(op)
        else:
            parent.insert_op_before(op, following)


def _rename(functions: Sequence[FuncOp], others: Block, users: Sequence[Operation]) -> None:
    """Give functions names that no function of the block has, also where the users name them."""
    taken = {op.sym_name.data for op in others.ops if isinstance(op, FuncOp)}
    names = {function.sym_name.data: function.sym_name.data for function in functions}
    for old in [name for name in names if name in taken]:
        names[old] = next(name for number in count(1) if (name := f"{old}.{number}") not in (*taken, *names, *names.values()))
    for function in functions:
        function.sym_name = StringAttr(names[function.sym_name.data])
    for op in (inner for user in users for inner in user.walk()):
        for key, value in op.properties.items():
            if isinstance(value, SymbolRefAttr) and value.string_value() in names:
                op.properties[key] = SymbolRefAttr(names[value.string_value()])


def without_nested(text: str, available: AvailablePasses) -> str:
    """The text of a pipeline in which every nested element is the name of a pass that was made `available`."""
    plain = _QUOTED.sub(lambda found: " " * len(found[0]), text)
    parts: list[str] = []
    at = 0
    while found := _START.search(plain, at):
        end = _end_of(plain, found.end())
        name = f"nested-{sum(known.startswith('nested-') for known in available)}"
        made = _nested(found[1], text[found.start(2) : found.end(2)], text[found.end() : end], available)
        available[name] = lambda made=made: made
        parts += [text[at : found.start()], name]
        at = end + 1
    return "".join((*parts, text[at:]))


def _nested(op_name: str, having: str, inner: str, available: AvailablePasses) -> type[NestedPasses]:
    if op_name not in PLACES:
        raise InputError("E1004", f"passes cannot be nested in {op_name}", hint=f"there are {', '.join(PLACES)}")
    facts = {
        "name": f"{op_name}{having}({inner})",
        "op_name": op_name,
        "having": parse_spec(f"having{having}").parameters,
        "passes": PassPipeline.parse_spec(available, without_nested(inner, available)),
    }
    return type("NestedPasses", (NestedPasses,), facts)


def _end_of(text: str, start: int) -> int:
    """Where the parenthesis ends that was opened before `start`."""
    depth = 1
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if not depth:
            return place
    raise InputError("E1004", f"the list of passes ends inside of {depth} open parentheses")
