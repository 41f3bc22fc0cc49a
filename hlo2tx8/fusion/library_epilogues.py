"""Arithmetic behind a registered kernel of LOOPS joins it: its elements are changed before they are stored.

%1 = hlo.library "twice"(%0) {code = "..."} {...}    ⟶    %2 = hlo.library "twice"(%0, %a) {code = "...", epilogue} {
%2 = hlo.fusion "tanh_fusion"(%1, %a) {...}                 %k = hlo.fusion "twice"(%0) {...}
                                                            %e = hlo.fusion "tanh_fusion"(%k, %a) {...}
                                                            stablehlo.return %e }

A program of the Assembler stays alone: nothing says which of its instructions make the elements that it stores.
"""

from collections.abc import Iterator, Mapping, Sequence

from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from hlo2tx8.dialects.hlo import FusionOp, LibraryOp
from hlo2tx8.dialects.layout import is_row_major
from hlo2tx8.dialects.stablehlo import ReturnOp
from hlo2tx8.fusion.candidate import name_of
from hlo2tx8.fusion.library_loops import entry_of, loops_of, written
from hlo2tx8.fusion.views import is_view
from hlo2tx8.hlo import Kind
from hlo2tx8.hlo.regions import inline_region, terminator_of
from hlo2tx8.notes import Decision, Name, What
from hlo2tx8.partitioner.computation import partition
from hlo2tx8.partitioner.instruction import is_elemental, is_identity, kind_of, shape_of, tensor_type

ELEMENTWISE = (Kind.ELEMENTWISE, Kind.SHAPING, Kind.CONSTANT)


def join_epilogues(
    block: Block, numbers: Mapping[Operation, int], members: Mapping[Operation, Sequence[Name]]
) -> Iterator[Decision]:
    """Puts fusions behind library kernels into those; what each is made of then, or why it is alone. `members` are the instructions
    of fusions, the root first."""
    for library in [op for op in block.ops if isinstance(op, LibraryOp)]:
        own = name_of(library, numbers.get(library, -1))
        why, fusion = why_alone(library), _reader(library)
        if why or fusion is None:
            yield Decision(What.NO_EPILOGUE, (own,), why=why)
            yield Decision(What.FUSION, (own,), own)
            continue
        behind = members.get(fusion, (name_of(fusion, numbers.get(fusion, -1)),))
        yield Decision(What.EPILOGUE, (own,), behind[0], why="its LOOPS store each element where it is made")
        yield Decision(What.FUSION, (own, *behind), own)
        _join(library, fusion)


def why_alone(library: LibraryOp) -> str:
    """Why nothing behind a library kernel joins it, or "" if its only reader does."""
    fusion = _reader(library)
    if not isinstance(library.code, StringAttr):
        return "it is a program of the Assembler, whose stores are its own"
    if fusion is None or is_view(fusion):
        return "no fusion alone reads its only result"
    terminator, args = terminator_of(fusion.body.block), fusion.body.block.args
    read = [arg for arg, operand in zip(args, fusion.operands, strict=True) if operand is library.results[0]]
    values = (*library.results, *fusion.results)
    same = len({shape_of(value) for value in values}) == 1 and all(is_row_major(tensor_type(value)) for value in values)
    is_arithmetic = all(is_elemental(op) and kind_of(op) in ELEMENTWISE for op in fusion.body.block.ops if op is not terminator)
    if len(fusion.results) != 1 or not same or not is_arithmetic or terminator.operands[0] in args:
        return "its reader is no arithmetic on its elements"
    parts = partition(fusion.body.block)
    function = parts.functions[0]
    reads = [parts.operand_places[op, n] for op, n in parts.operand_places if op.operands[n] in read]
    in_place = all(scope is function.top and is_identity(map, shape_of(library.results[0])) for map, scope in reads)
    if len(parts.functions) != 1 or not in_place:
        return "its reader is no arithmetic on its elements"
    return "" if written(entry_of(loops_of(library))) is not None else "its LOOPS read what they store, or do not insert it"


def without_epilogue(library: LibraryOp) -> list[Operation]:
    """Puts the kernel alone, and the fusion that was behind it, in its place."""
    kernel, behind, _ = library.body.block.ops
    assert isinstance(kernel, FusionOp)
    alone = _library(library, kernel.operands, kernel.result_types, kernel.detach_region(kernel.body))
    Rewriter.replace_op(kernel, alone)
    inline_region(library, library.body.block, list(library.operands))
    return [alone, behind]


def _reader(library: LibraryOp) -> FusionOp | None:
    """The fusion that alone reads the only result."""
    readers = {use.operation for value in library.results for use in value.uses}
    only = readers.pop() if len(readers) == 1 and len(library.results) == 1 else None
    return only if isinstance(only, FusionOp) and only.parent is library.parent else None


def _join(library: LibraryOp, fusion: FusionOp) -> None:
    """Puts both into one library op, where the fusion was."""
    body = Block(arg_types=[value.type for value in library.operands])
    inputs: dict[SSAValue, SSAValue] = dict(zip(library.operands, body.args, strict=True))
    made = library.results[0]
    for value in fusion.operands:
        if value is not made and value not in inputs:
            inputs[value] = body.insert_arg(value.type, len(body.args))
    name = library.fusion_name.data
    kernel = FusionOp(list(body.args[: len(library.operands)]), [made.type], "kLoop", library.detach_region(library.body), name)
    behind = fusion.clone({made: kernel.results[0], **inputs})
    body.add_ops([kernel, behind, ReturnOp(list(behind.results))])
    others = [value for value in inputs if value not in library.operands]
    new = _library(library, [*library.operands, *others], fusion.result_types, Region(body))
    new.properties["epilogue"] = UnitAttr()
    new.results[0].name_hint = fusion.results[0].name_hint
    Rewriter.replace_op(fusion, new)
    library.detach()
    library.erase()


def _library(like: LibraryOp, operands: Sequence[SSAValue], types: Sequence[Attribute], body: Region) -> LibraryOp:
    properties = {"fusion_name": like.fusion_name, "kernel": like.kernel, "code": like.code}
    attributes = dict(like.attributes)
    return LibraryOp.create(operands=operands, result_types=[*types], properties=properties, attributes=attributes, regions=[body])
