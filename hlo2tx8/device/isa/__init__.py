"""The instruction set: one class per instruction, INSTRUCTIONS in opcode order, and the xDSL dialect `tx8`."""

from xdsl.ir import Dialect

from hlo2tx8.device.isa import (
    ct_activation,
    ct_arith,
    ct_auxiliary,
    ct_function,
    ct_logic,
    ct_move,
    ct_pool,
    ct_reduce,
    ct_relation,
    ct_relation_bits,
    dte,
    kc_control,
    kc_function,
    kc_move,
    kc_vector,
    lsu,
    ne,
    ne_conv,
    tdma,
)
from hlo2tx8.device.isa.base import BufferType, Instruction, declared, opcodes
from hlo2tx8.device.isa.fields import RANGE_CHECKED, Access, Engine, Field, Operands, Role

# The order of docs/isa.md. An instruction is listed by being declared in one of these.
INSTRUCTIONS: tuple[type[Instruction], ...] = declared(
    ct_arith,
    ct_relation,
    ct_function,
    ct_move,
    ct_reduce,
    ct_pool,
    kc_vector,
    kc_function,
    kc_move,
    kc_control,
    lsu,
    ne,
    ne_conv,
    ct_relation_bits,
    ct_logic,
    ct_activation,
    ct_auxiliary,
    tdma,
    dte,
)
BY_OPCODE = opcodes(INSTRUCTIONS)

Tx8 = Dialect("tx8", list(INSTRUCTIONS), [BufferType])

__all__ = [
    "BY_OPCODE",
    "INSTRUCTIONS",
    "RANGE_CHECKED",
    "Access",
    "BufferType",
    "Engine",
    "Field",
    "Instruction",
    "Operands",
    "Role",
    "Tx8",
]
