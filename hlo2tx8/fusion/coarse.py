"""What becomes of a coarse op that was kept: a registered kernel's, one kernel of an emitter, or the instructions it is made of.

hlo.fusion "softmax" {coarse}    ⟶    hlo.library "softmax" {kernel = "softmax_by_hand 1"}    a kernel is registered for its types
                                 ⟶    hlo.fusion "softmax"                                    its instructions are one fusion
                                 ⟶    its instructions                                        they are several
"""

import base64
import zlib

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr, TensorType
from xdsl.ir import Attribute, Region, SSAValue

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.isa import Role
from hlo2tx8.device.isa.encoding import Record, decode_records, encode_records
from hlo2tx8.device.program import Program, SlotKind
from hlo2tx8.dialects.hlo import FusionOp, LibraryOp, decode_attribute, origin
from hlo2tx8.dialects.layout import is_row_major
from hlo2tx8.errors import CompileError
from hlo2tx8.fusion.candidate import is_kernel_of_its_own
from hlo2tx8.fusion.find_candidates import find_candidates
from hlo2tx8.hlo.regions import inline_region
from hlo2tx8.hlo.types import dtype, element_type, numpy_dtype
from hlo2tx8.ir import i64_array
from hlo2tx8.kernel_registry import REGISTRY, CoarseOp, CoarseTensor, RegisteredKernel
from hlo2tx8.notes import Decision, Name, What
from hlo2tx8.partitioner.instruction import tensor_type
from hlo2tx8.schedule.costs import Costs

ORDER = (SlotKind.INPUT, SlotKind.OUTPUT, SlotKind.SCRATCH)


def settle(fusion: FusionOp, costs: Costs, chip: Chip | None) -> Decision:
    """Replaces, keeps or dissolves a fusion that is a coarse op; says what became of it, and why."""
    if chip is not None and (op := coarse_op(fusion)) is not None and (found := REGISTRY.make(op, chip)) is not None:
        kernel, made = found
        said = _said(fusion, f"is computed by the registered kernel {kernel.title}")
        _replace(fusion, kernel, StringAttr(made) if isinstance(made, str) else _code(made, op, kernel, chip))
        return said
    body = fusion.body.block
    alone = not any(map(is_kernel_of_its_own, body.ops)) and len(find_candidates(body, costs)[0]) == 1
    if alone:
        del fusion.properties["coarse"]
        return _said(fusion, "is kept as one fusion")
    said = _said(fusion, "is decomposed: no kernel is registered for it, and its instructions are several fusions")
    inline_region(fusion, body, list(fusion.operands))
    return said


def coarse_op(fusion: FusionOp) -> CoarseOp | None:
    """What a kernel is told of a coarse op; None if its tensors do not lie row by row."""
    values = [*fusion.operands, *fusion.results]
    if fusion.coarse is None or not all(isinstance(v.type, TensorType) and is_row_major(tensor_type(v)) for v in values):
        return None
    tensors = [_tensor(value) for value in values]
    number = len(fusion.operands)
    return CoarseOp(_name(fusion), decode_attribute(fusion.coarse), tuple(tensors[:number]), tuple(tensors[number:]))


def _said(fusion: FusionOp, why: str) -> Decision:
    return Decision(What.COARSE, (Name(_name(fusion), origin=origin(fusion)),), why=why)


def _name(fusion: FusionOp) -> str:
    return fusion.fusion_name.data if fusion.fusion_name is not None else "coarse"


def _tensor(value: SSAValue) -> CoarseTensor:
    type_ = tensor_type(value)
    return CoarseTensor(numpy_dtype(type_.element_type).name, tuple(type_.get_shape()))


def _replace(fusion: FusionOp, kernel: RegisteredKernel, code: Attribute) -> None:
    block = fusion.parent
    assert block is not None
    properties = {"fusion_name": StringAttr(_name(fusion)), "kernel": StringAttr(kernel.title), "code": code}
    body: Region = fusion.detach_region(fusion.body)
    new = LibraryOp.create(
        operands=list(fusion.operands),
        result_types=list(fusion.result_types),
        properties=properties,
        attributes=dict(fusion.attributes),
        regions=[body],
    )
    block.insert_op_before(new, fusion)
    for old, result in zip(fusion.results, new.results, strict=True):
        result.name_hint = old.name_hint
        old.replace_all_uses_with(result)
    fusion.detach()
    fusion.erase()


def _code(program: Program, op: CoarseOp, kernel: RegisteredKernel, chip: Chip) -> Attribute:
    """The records of a program that the Assembler made, with slots in the order of operands, results and scratch tensors.

    CompileError E1016 if its tensors are not those of the op, or it uses SPM that the chip has not.
    """
    slots = {kind: [slot for slot in program.slots if slot.kind is kind] for kind in (*ORDER, SlotKind.CONSTANT)}
    for what, kind, tensors in (("inputs", SlotKind.INPUT, op.operands), ("outputs", SlotKind.OUTPUT, op.results)):
        own = [CoarseTensor(slot.dtype, slot.shape) for slot in slots[kind]]
        if own != list(tensors):
            said, wanted = (", ".join(map(str, each)) or "none" for each in (own, tensors))
            raise CompileError("E1016", f"kernel {kernel.title} for {op.name} has {what} {said}, not {wanted}")
    if slots[SlotKind.CONSTANT]:
        raise CompileError("E1016", f"kernel {kernel.title} for {op.name} has constants", hint="make them operands of the op")
    if program.spm_bytes > chip.spm_limit:
        raise CompileError("E1016", f"kernel {kernel.title} uses {program.spm_bytes:,} bytes of SPM of {chip.spm_limit:,}")
    numbers = {slot: number for number, slot in enumerate(slot for kind in ORDER for slot in slots[kind])}
    records = [
        _renumbered(record, [numbers[slot] for slot in program.slots]) for record in decode_records(program.code, program.origins)
    ]
    words, _ = encode_records(records[:-2])  # without the wait and the halt at the end
    return DictionaryAttr(
        {
            "records": StringAttr(base64.b64encode(zlib.compress(np.ascontiguousarray(words).tobytes())).decode()),
            "spm": i64_array([chip.spm_allocation_start, max(program.spm_bytes, chip.spm_allocation_start)]),
            "scratch": ArrayAttr([TensorType(element_type(dtype(slot.dtype)), slot.shape) for slot in slots[SlotKind.SCRATCH]]),
        }
    )


def _renumbered(record: Record, numbers: list[int]) -> Record:
    """The record without an origin, its slots by the numbers that they get."""
    names = [f.name for f in record.kind.FIELDS if f.role is Role.SLOT]
    slots = {name: numbers[slot] for name in names if isinstance(slot := record.fields[name], int)}
    return Record(record.kind, {**record.fields, **slots}, record.fmt, record.fmt2, record.rounding)
