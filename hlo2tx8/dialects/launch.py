"""Dialect `launch`: from LOOPS down, @main launches kernels, each a module of its own.

    builtin.module @m {
      func.func @main(%0 : tensor<4xf32>) -> tensor<4xf32> {
        %1 = launch.kernel @gelu(%0) {group = 0} : (tensor<4xf32>) -> tensor<4xf32>
        func.return %1 : tensor<4xf32>
      }
      builtin.module @gelu { func.func @gelu(%p0 : ..., %r0 : ...) -> tensor<4xf32> {...} }
    }

A kernel's entry function takes the operands, then one tensor per result that it writes. Launches happen in
order; those of one group belong together in SPM. Control flow is `launch.while`, `launch.repeat` and `launch.case`;
their regions hold launches, and may use values from outside. `launch.update` writes into a value, in place if it can;
`launch.view` is a value in another shape.

    %2 = launch.repeat 5 (%0) do {
    ^bb0(%x : tensor<4xf32>):
      %1 = launch.kernel @step(%x) {group = 1} : (tensor<4xf32>) -> tensor<4xf32>
      launch.yield %1 : tensor<4xf32>
    } : (tensor<4xf32>) -> tensor<4xf32>
"""

from collections.abc import Sequence
from math import prod
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    TensorType,
)
from xdsl.ir import Attribute, Dialect, Operation, Region, SSAValue
from xdsl.irdl import (
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.traits import IsTerminator, SymbolUserOpInterface
from xdsl.utils.exceptions import VerifyException

from hlo2tx8.ir import DeclaredOp, i64_array, i64_attr, text_attr


class _LaunchesKernel(SymbolUserOpInterface):
    def verify(self, op: Operation) -> None:
        assert isinstance(op, KernelOp)
        if op.parent is not None and op.kernel() is None:
            raise VerifyException(f"no kernel module {op.callee}")


@irdl_op_definition
class KernelOp(DeclaredOp):
    """results = kernel(operands): one launch of kernel module `callee`, as part of group number `group`.

    Its result may take the place of one of the operands `replaces`, if that is not read afterwards. If it has `updates`, its
    result k is the operand updates[k] with some elements replaced: in place if nobody reads that afterwards, else in a copy.
    `tiles`: row, column, rows and columns of the tiles that run it, if not all do.
    """

    name = "launch.kernel"

    operands_ = var_operand_def()
    results_ = var_result_def()
    callee = prop_def(SymbolRefAttr)
    group = prop_def(IntegerAttr[IntegerType])
    replaces = opt_prop_def(DenseArrayBase[IntegerType])
    updates = opt_prop_def(DenseArrayBase[IntegerType])
    tiles = opt_prop_def(DenseArrayBase[IntegerType])

    traits = traits_def(_LaunchesKernel())

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$callee `(` $operands_ `)` attr-dict `:` functional-type($operands_, $results_)"

    def __init__(
        self,
        callee: str,
        operands: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        group: int = 0,
        origin: str = "",
        replaces: Sequence[int] = (),
        updates: Sequence[int] = (),
        tiles: "DenseArrayBase[IntegerType] | None" = None,
    ) -> None:
        super().__init__(
            operands=[operands],
            result_types=[result_types],
            properties={
                "callee": SymbolRefAttr(callee),
                "group": i64_attr(group),
                "replaces": i64_array(replaces) if replaces else None,
                "updates": i64_array(updates) if updates else None,
                "tiles": tiles,
            },
            attributes={"loc": text_attr(origin)} if origin else {},
        )

    @property
    def updated(self) -> dict[SSAValue, SSAValue]:
        """The operand that each result updates, if it updates any."""
        numbers = self.updates.get_values() if self.updates else ()
        return {result: self.operands[n] for result, n in zip(self.results, numbers, strict=False)}

    def kernel(self) -> "ModuleOp | LibraryKernelOp | None":
        """The launched module or library kernel, a sibling of the function this op stands in."""
        top: Operation | None = self
        while top is not None and not isinstance(top, ModuleOp):
            top = top.parent_op()
        name = self.callee.string_value()
        for op in () if top is None else top.body.block.ops:
            if isinstance(op, ModuleOp | LibraryKernelOp) and op.sym_name is not None and op.sym_name.data == name:
                return op
        return None


@irdl_op_definition
class LaunchYieldOp(DeclaredOp):
    """The terminator of a region of control flow; its operands are the region's results."""

    name = "launch.yield"

    arguments = var_operand_def()

    traits = traits_def(IsTerminator())

    assembly_format = "($arguments^ `:` type($arguments))? attr-dict"

    def __init__(self, arguments: Sequence[SSAValue]) -> None:
        super().__init__(operands=[arguments])


class _LoopOp(DeclaredOp):
    """A loop whose body maps loop variables to their next values; types do not change."""

    state = var_operand_def()
    results_ = var_result_def()

    def verify_(self) -> None:
        types = [value.type for value in self.operands]
        yields = [self.regions[-1].block.last_op]
        lists = [self.result_types, *([arg.type for arg in region.block.args] for region in self.regions)]
        lists += [[value.type for value in op.operands] for op in yields if op is not None]
        if any(list(found) != types for found in lists):
            raise VerifyException(f"{self.name}: operands, results, parameters and what the body yields differ in type")


@irdl_op_definition
class WhileOp(_LoopOp):
    """As long as the condition yields true for the state: state = body(state)."""

    name = "launch.while"

    condition = region_def("single_block")
    body = region_def("single_block")

    assembly_format = "`(` $state `)` `cond` $condition `do` $body attr-dict `:` functional-type($state, $results_)"

    def __init__(self, state: Sequence[SSAValue], condition: Region, body: Region) -> None:
        types = [value.type for value in state]
        super().__init__(operands=[state], result_types=[types], regions=[condition, body])


@irdl_op_definition
class RepeatOp(_LoopOp):
    """`count` times: state = body(state). With `counter` [k, start, step], state k is an integer that is `start` in the first turn
    and `step` more in each one behind it. What states `unset` are in the beginning nobody reads: the turns write all of them.
    """

    name = "launch.repeat"

    count = prop_def(IntegerAttr[IntegerType])
    counter = opt_prop_def(DenseArrayBase[IntegerType])
    unset = opt_prop_def(DenseArrayBase[IntegerType])
    body = region_def("single_block")

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$count `(` $state `)` `do` $body attr-dict `:` functional-type($state, $results_)"

    def __init__(
        self, count: int, state: Sequence[SSAValue], body: Region, counter: Sequence[int] = (), unset: Sequence[int] = ()
    ) -> None:
        types = [value.type for value in state]
        more = {name: i64_array(numbers) if numbers else None for name, numbers in (("counter", counter), ("unset", unset))}
        properties = {"count": i64_attr(count), **more}
        super().__init__(operands=[state], result_types=[types], regions=[body], properties=properties)


@irdl_op_definition
class CaseOp(DeclaredOp):
    """results = branches[selector](); a selector out of range is the last branch. Of a pred, false is the first branch."""

    name = "launch.case"

    selector = operand_def()
    results_ = var_result_def()
    branches = var_region_def("single_block")

    assembly_format = "$selector $branches `:` functional-type($selector, $results_) attr-dict"

    def __init__(self, selector: SSAValue, result_types: Sequence[Attribute], branches: Sequence[Region]) -> None:
        super().__init__(operands=[selector], result_types=[result_types], regions=[branches])

    def verify_(self) -> None:
        for region in self.branches:
            last = region.block.last_op
            if last is None or [v.type for v in last.operands] != list(self.result_types):
                raise VerifyException(f"{self.name}: a branch yields other types than the op has results")


@irdl_op_definition
class UpdateOp(DeclaredOp):
    """`tensor` with `update` written where the starts say: an integer scalar per dimension, clamped so that it stays inside.

        %1 = launch.update %0 with %u at(%i, %z) : (tensor<8x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<8x4xf32>

    It takes no copy where nobody reads `tensor` afterwards.
    """

    name = "launch.update"

    tensor = operand_def()
    update = operand_def()
    starts = var_operand_def()
    result = result_def()

    assembly_format = (
        "$tensor `with` $update `at` `(` $starts `)` attr-dict `:` "
        "`(` type($tensor) `,` type($update) `,` type($starts) `)` `->` type($result)"
    )

    def __init__(self, operands: Sequence[SSAValue]) -> None:
        tensor, update, *starts = operands
        super().__init__(operands=[tensor, update, starts], result_types=[tensor.type])


@irdl_op_definition
class ViewOp(DeclaredOp):
    """Elements of `tensor` that follow each other, in the same order under another shape: the result lies in the same buffer, and
    nothing is executed. They begin at element `offset` + the sum over k of `steps[k]` times start k, clamped to 0..rooms[k].

    %1 = launch.view %0 : tensor<8x4xf32> -> tensor<32xf32>
    %3 = launch.view %0 at(%2 : tensor<i32>) {steps = array<i64: 4>, rooms = array<i64: 7>} : tensor<8x4xf32> -> tensor<4xf32>
    """

    name = "launch.view"

    tensor = operand_def()
    starts = var_operand_def()
    result = result_def()
    offset = opt_prop_def(IntegerAttr[IntegerType])
    steps = opt_prop_def(DenseArrayBase[IntegerType])
    rooms = opt_prop_def(DenseArrayBase[IntegerType])

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$tensor (`at` `(` $starts^ `:` type($starts) `)`)? attr-dict `:` type($tensor) `->` type($result)"

    def __init__(
        self,
        tensor: SSAValue,
        result_type: Attribute,
        starts: Sequence[SSAValue] = (),
        offset: int = 0,
        steps: Sequence[int] = (),
        rooms: Sequence[int] = (),
    ) -> None:
        super().__init__(
            operands=[tensor, starts],
            result_types=[result_type],
            properties={
                "offset": i64_attr(offset) if offset else None,
                "steps": i64_array(steps) if starts else None,
                "rooms": i64_array(rooms) if starts else None,
            },
        )

    @property
    def first(self) -> int:
        """The element at which the view begins where all starts are 0."""
        return self.offset.value.data if self.offset else 0

    @property
    def terms(self) -> tuple[tuple[SSAValue, int, int], ...]:
        """Each start with its step and room."""
        numbers = (of.get_values() if of else () for of in (self.steps, self.rooms))
        return tuple(zip(self.starts, *numbers, strict=True))

    @property
    def is_whole(self) -> bool:
        """Does it show all elements?"""
        shown, tensor = self._sizes
        return shown == tensor

    @property
    def _sizes(self) -> tuple[int, int]:
        """Elements of the result and of the tensor."""
        types = (cast(TensorType[Attribute], value.type) for value in (self.result, self.tensor))
        shown, tensor = (prod(type_.get_shape()) for type_ in types)
        return shown, tensor

    def verify_(self) -> None:
        if {len(self.starts)} != {len(of.get_values() if of else ()) for of in (self.steps, self.rooms)}:
            raise VerifyException(f"{self.name}: each start has a step and a room")
        shown, tensor = self._sizes
        if self.first + sum(step * room for _, step, room in self.terms) + shown > tensor:
            raise VerifyException(f"{self.name}: it shows more than there is")


LIBRARY = "library"
"""The attribute of a kernel module that somebody wrote as LOOPS: as `kernel` of launch.library, the function and its version."""


@irdl_op_definition
class LibraryKernelOp(DeclaredOp):
    """A kernel that somebody wrote, as encoded records (base64 of what zlib made of them); `body` is what it computes, which levels
    above SCHEDULED run. `spm`: begin and end of the bytes that it uses; `scratch`: types of tensors that only it sees."""

    name = "launch.library"

    sym_name = prop_def(StringAttr)
    kernel = prop_def(StringAttr)
    records = prop_def(StringAttr)
    spm = prop_def(DenseArrayBase[IntegerType])
    scratch = prop_def(ArrayAttr[Attribute])
    body = region_def("single_block")


def library_kernels(module: ModuleOp) -> dict[str, LibraryKernelOp]:
    """The kernels inside a top module that somebody wrote, by name."""
    return {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, LibraryKernelOp)}


def kernels(module: ModuleOp) -> dict[str, ModuleOp]:
    """The kernel modules inside a top module by name, in order."""
    nested = (op for op in module.body.block.ops if isinstance(op, ModuleOp))
    return {op.sym_name.data: op for op in nested if op.sym_name is not None}


Launch = Dialect("launch", [KernelOp, LaunchYieldOp, WhileOp, RepeatOp, CaseOp, UpdateOp, ViewOp, LibraryKernelOp], [])
