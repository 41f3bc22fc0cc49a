"""Kernel with addresses → records: loops, branches and index arithmetic become kernel-core instructions.

Index values are kept as linear forms over registers and cost an instruction only when an operand needs them. Slot fields
refer to the kernel's arguments, then its scratch tensors, in order; the program maps them to its own slots.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa import Engine, Instruction
from hlo2tx8.device.isa.encoding import Operand, Record, Register
from hlo2tx8.device.isa.forms import KcScalar
from hlo2tx8.device.isa.kc_control import (
    KcAffine,
    KcBarrier,
    KcEnd,
    KcEndIf,
    KcFloorDiv,
    KcIf,
    KcLess,
    KcLoadScalar,
    KcLoop,
    KcMax,
    KcMin,
    KcMod,
    KcMul,
)
from hlo2tx8.device.program import Buffer, BufferUse
from hlo2tx8.dialects import vec, xla
from hlo2tx8.dialects.functions import defined_functions
from hlo2tx8.dialects.nested import ops_of
from hlo2tx8.errors import CompileError
from hlo2tx8.indexing import Add, Const, Dim, Expr, FloorDiv, Mod, Mul, Sym
from hlo2tx8.lower.buffer_table import BufferLife, buffers_of, lives_of, uses_of
from hlo2tx8.lower.element_format import format_of
from hlo2tx8.lower.encode.registers import (
    FIRST_VIEW_REGISTER,
    NUM_REGISTERS,
    PLACING_REGISTERS,
    TILE_REGISTER,
    LinearForm,
    ValueNumbering,
    allocate_registers,
)

NUM_AFFINE_TERMS = 4
REMEMBERED_FORMS = (1 << 30, 24, 8, 0)
"""Per region, one attempt after the other: as many as fit into the registers."""


@dataclass(frozen=True)
class ViewBase:
    """Where an argument begins in its slot: `offset` bytes, and of each term the number in a register times a factor."""

    offset: int
    terms: tuple[tuple[int, int], ...] = ()


WITHOUT_RECORDS = frozenset((arith.CmpiOp, scf.YieldOp, func.ReturnOp, xla.SyncTilesOp))
"""Classes of ops that are part of others' records, or of none."""
NO_BASES: Mapping[int, ViewBase] = MappingProxyType({})


@dataclass(frozen=True)
class EncodedKernel:
    """Records of one kernel. `num_arguments` slots, then one per entry of `scratch`. `buffers` and `uses` as in a program; `lives`
    say when the places of buffers are theirs."""

    records: tuple[Record, ...]
    num_arguments: int
    scratch: tuple[TensorType[Attribute], ...]
    buffers: tuple[Buffer, ...] = ()
    uses: tuple[BufferUse, ...] = ()
    lives: tuple[BufferLife, ...] = ()


def encode(module: ModuleOp, moved: Sequence[int] = (), bases: Mapping[int, ViewBase] = NO_BASES) -> EncodedKernel:
    """The records of a kernel module whose buffers have addresses, each so many bytes further as `moved` says; arguments of which
    `bases` has the numbers begin there in their slots."""
    functions = defined_functions(module)
    if len(functions) != 1:
        raise CompileError("E3103", f"a kernel has one function at this level, not {len(functions)}")
    body = functions[0].body.block
    num_registers = NUM_REGISTERS - PLACING_REGISTERS if xla.PART in module.attributes else NUM_REGISTERS
    if any(base.terms for base in bases.values()):
        num_registers = FIRST_VIEW_REGISTER
    forms = {number: LinearForm(base.offset, tuple((-n, factor) for n, factor in base.terms)) for number, base in bases.items()}
    for most_copies in REMEMBERED_FORMS:
        encoder = _Encoder({a: i for i, a in enumerate(body.args)}, ValueNumbering(most_copies), moved, forms)
        encoder.block(body)
        records = allocate_registers(encoder.records, num_registers)
        if records is not None:
            buffers = buffers_of(functions[0], encoder.uses, encoder.loops)
            if moved:
                buffers = tuple(replace(b, address=b.address + far) for b, far in zip(buffers, moved, strict=True))
            lives, scratch = lives_of(functions[0]), tuple(encoder.scratch)
            return EncodedKernel(_with_origins(records), len(body.args), scratch, buffers, tuple(encoder.uses), lives)
    raise CompileError("E3102", f"a kernel needs more than {num_registers} registers; split its fusion")


def _with_origins(records: Sequence[Record]) -> tuple[Record, ...]:
    """Instructions of engines without an origin, such as fills, get that of the last one: the fusion's root."""
    last = next((r.origin for r in reversed(records) if r.origin), "")
    return tuple(r if r.origin or r.kind.ENGINE is Engine.KC else r.of_origin(last) for r in records)


@dataclass
class _Encoder:
    slots: dict[SSAValue, int]
    values: ValueNumbering
    moved: Sequence[int] = ()
    bases: Mapping[int, LinearForm] = field(default_factory=dict[int, LinearForm])
    records: list[Record] = field(default_factory=list[Record])
    forms: dict[SSAValue, LinearForm] = field(default_factory=dict[SSAValue, LinearForm])
    scratch: list[TensorType[Attribute]] = field(default_factory=list[TensorType[Attribute]])
    uses: list[BufferUse] = field(default_factory=list[BufferUse])
    loops: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    def block(self, block: Block) -> None:
        for op in ops_of(block):
            self._operation(op)

    def _operation(self, op: Operation) -> None:
        if isinstance(op, Instruction):
            self._instruction(op)
        elif op.regions:
            self._with_regions(op)
        elif type(op) not in WITHOUT_RECORDS:
            self._value(op)

    def _with_regions(self, op: Operation) -> None:
        match op:
            case scf.ForOp():
                self._loop(op)
            case scf.IfOp():
                self._branch(op)
            case _:
                raise CompileError("E3105", f"no control for {op.name}")

    def _value(self, op: Operation) -> None:
        match op:
            case xla.TileIdOp():
                self.forms[op.tile] = LinearForm.of_register(TILE_REGISTER)
            case xla.AllocateScratchOp():
                self.slots[op.res] = len(self.slots)
                assert isinstance(op.res.type, TensorType)
                self.scratch.append(op.res.type)
            case vec.ReadScalarOp():
                self._read_scalar(op)
            case _:
                self._index(op)

    # ---------------------------------------------------------------------------------------------- control

    def _loop(self, op: scf.ForOp) -> None:
        bounds = [self.forms[v] for v in (op.lb, op.ub, op.step)]
        self.values.enter()
        if all(bound.is_constant for bound in bounds) and len(range(*(bound.constant for bound in bounds))) == 1:
            self.forms[op.body.block.args[0]] = bounds[0]
            self.block(op.body.block)
            self.values.leave()
            return
        lo, hi, step = map(self._operand, bounds)
        counter = self.values.take()
        self.forms[op.body.block.args[0]] = LinearForm.of_register(counter)
        begin = len(self.records)
        self._emit(KcLoop, rd=Register(counter), lo=lo, hi=hi, step=step)
        self.block(op.body.block)
        self.loops.append((begin, len(self.records)))
        self._emit(KcEnd)
        self.values.leave()

    def _branch(self, op: scf.IfOp) -> None:
        compare = op.cond.owner
        assert isinstance(compare, arith.CmpiOp)
        lhs, rhs = self.forms[compare.lhs], self.forms[compare.rhs]
        match arith.CMPI_COMPARISON_OPERATIONS[compare.predicate.value.data]:
            case "slt":
                less = self._less(lhs, rhs)
            case "sgt":
                less = self._less(rhs, lhs)
            case other:
                raise CompileError("E3104", f"no branch on comparison {other}")
        self._emit(KcIf, value=Register(less))
        self.values.enter()
        self.block(op.true_region.block)
        self.values.leave()
        self._emit(KcEndIf)

    def _less(self, a: LinearForm, b: LinearForm) -> int:
        return self._scalar(KcLess, a, b)

    # ------------------------------------------------------------------------------------------------ index

    def _read_scalar(self, op: vec.ReadScalarOp) -> None:
        address = self._operand(self.forms[op.address])
        rd = self.values.take()
        self.records.append(Record(KcLoadScalar, {"rd": Register(rd), "address": address}, format_of(op.format)))
        self.forms[op.result] = LinearForm.of_register(rd)

    def _index(self, op: Operation) -> None:
        kind = type(op)  # compared, as none is derived from: `isinstance` asks `ABCMeta` of ops that are not ours
        if kind is arith.ConstantOp and isinstance(value := op.properties["value"], IntegerAttr):
            self.forms[op.results[0]] = LinearForm(value.value.data)
            return
        operands = [self.forms[o] for o in op.operands]
        if kind is arith.AddiOp:
            form = operands[0] + operands[1]
        elif kind is arith.MuliOp:
            form = self._product(*operands)
        elif isinstance(op, xla.ApplyIndexingOp):
            map = op.map.data
            for result, expr in zip(op.results, map.results, strict=True):
                self.forms[result] = self._expr(expr, operands, len(map.dims))
            return
        elif kind is arith.SubiOp:
            form = operands[0] + operands[1] * -1
        elif kind is arith.MinSIOp:
            form = self._binary(KcMin, *operands)
        elif kind is arith.MaxSIOp:
            form = self._binary(KcMax, *operands)
        elif isinstance(op, vec.ExtentOp):
            form = self._extent(op, operands)
        else:
            raise CompileError("E3105", f"no scalar instruction for {op.name}")
        self.forms[op.results[0]] = form

    def _extent(self, op: vec.ExtentOp, operands: Sequence[LinearForm]) -> LinearForm:
        kind = KcMin if op.kind.data == "min" else KcMax
        forms = [self._expr(e, operands, len(op.map.data.dims)) for e in op.map.data.results]
        form = forms[0]
        for other in forms[1:]:
            form = self._binary(kind, form, other)
        form = self._binary(KcMin, form, LinearForm(op.upper.value.data))
        return self._binary(KcMax, form, LinearForm(op.lower.value.data))

    def _expr(self, expr: Expr, operands: Sequence[LinearForm], num_dims: int) -> LinearForm:
        match expr:
            case Const():
                return LinearForm(expr.value)
            case Dim():
                return operands[expr.index]
            case Sym():
                return operands[num_dims + expr.index]
            case Add():
                return self._expr(expr.lhs, operands, num_dims) + self._expr(expr.rhs, operands, num_dims)
            case Mul():
                return self._product(self._expr(expr.lhs, operands, num_dims), self._expr(expr.rhs, operands, num_dims))
            case FloorDiv() | Mod():
                kind = KcFloorDiv if isinstance(expr, FloorDiv) else KcMod
                lhs = self._expr(expr.lhs, operands, num_dims)
                return self._binary(kind, lhs, self._expr(expr.rhs, operands, num_dims))
            case _:
                raise CompileError("E3106", f"no scalar instruction for index expression {expr}")

    def _product(self, a: LinearForm, b: LinearForm) -> LinearForm:
        if a.is_constant:
            return b * a.constant
        if b.is_constant:
            return a * b.constant
        return self._binary(KcMul, a, b)

    def _binary(self, kind: type[KcScalar], a: LinearForm, b: LinearForm) -> LinearForm:
        if a.is_constant and b.is_constant:
            return LinearForm(kind.FOLD(a.constant, b.constant))
        return LinearForm.of_register(self._scalar(kind, a, b))

    def _scalar(self, kind: type[Instruction], a: LinearForm, b: LinearForm) -> int:
        rd, is_new = self.values.result_of((kind, a, b))
        if is_new:
            operands = self._operand(a), self._operand(b)
            self._emit(kind, rd=Register(rd), a=operands[0], b=operands[1])
        return rd

    # --------------------------------------------------------------------------------------------- operands

    def _operand(self, form: LinearForm) -> Operand:
        """An immediate, or a register (as a 1-tuple) that holds the form."""
        if form.is_constant:
            return form.constant
        register = form.register
        if register is None:
            register = self.values.copy_of(form)
        if register is None:
            register = self._compute(form)
        return Register(register)

    def _compute(self, form: LinearForm) -> int:
        constant, terms = form.constant, form.terms
        rd = self.values.take(form)
        while True:
            part, terms = terms[:NUM_AFFINE_TERMS], terms[NUM_AFFINE_TERMS:]
            fields: dict[str, Operand] = {"rd": Register(rd), "c": constant}
            for i in range(NUM_AFFINE_TERMS):
                register, factor = part[i] if i < len(part) else (0, 0)
                fields |= {f"r{i + 1}": Register(register), f"k{i + 1}": factor}
            self._emit(KcAffine, **fields)
            if not terms:
                return rd
            constant, terms = 0, ((rd, 1), *terms)

    def _emit(self, kind: type[Instruction], **fields: Operand) -> None:
        self.records.append(Record(kind, fields))

    def _instruction(self, op: Instruction) -> None:
        moved = {op.FIELDS[use.operand].name: self.moved[use.buffer] for use in uses_of(op, 0)} if self.moved else {}
        values = op.values()
        further = {name: LinearForm(far) for name, far in moved.items()}
        if self.bases and isinstance(slot := values.get("slot"), SSAValue) and self.slots[slot] in self.bases:
            further["offset"] = self.bases[self.slots[slot]]
        resolved = {name: self._field(value, further.get(name)) for name, value in values.items()}
        self.uses += uses_of(op, len(self.records))
        fmt2 = op.fmt2 if op.FORMATS2 else Format.INT8
        self.records.append(Record(type(op), resolved, op.fmt, fmt2, op.rounding, op.origin))
        if isinstance(op, KcBarrier) and len(self.values.results) == 1:
            # What is cut here is timed by itself if no register lives on.
            self.values.forget()

    def _field(self, value: int | SSAValue, further: LinearForm | None) -> Operand:
        if isinstance(value, int):
            return value if further is None else self._operand(LinearForm(value) + further)
        if value in self.slots:
            return self.slots[value]
        return self._operand(self.forms[value] if further is None else self.forms[value] + further)
