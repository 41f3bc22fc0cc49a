"""The instruction set: one class per instruction, INSTRUCTIONS in opcode order, and the xDSL dialect `tx8`."""

from xdsl.ir import Dialect

from hlo2tx8.device.isa.base import BufferType, Instruction, opcodes
from hlo2tx8.device.isa.ct_activation import CT_ACTIVATIONS
from hlo2tx8.device.isa.ct_arith import CT_ARITHMETIC
from hlo2tx8.device.isa.ct_auxiliary import CT_AUXILIARY
from hlo2tx8.device.isa.ct_function import CT_FUNCTIONS
from hlo2tx8.device.isa.ct_logic import CT_LOGIC
from hlo2tx8.device.isa.ct_move import CT_MOVES
from hlo2tx8.device.isa.ct_pool import CT_POOLS
from hlo2tx8.device.isa.ct_reduce import CT_REDUCTIONS
from hlo2tx8.device.isa.ct_relation import CT_RELATIONS
from hlo2tx8.device.isa.ct_relation_bits import CT_BIT_RELATIONS
from hlo2tx8.device.isa.dte import DTE
from hlo2tx8.device.isa.fields import RANGE_CHECKED, Access, Engine, Field, Operands, Role
from hlo2tx8.device.isa.kc_control import KC_CONTROL, KC_SCALARS
from hlo2tx8.device.isa.kc_function import KC_FUNCTIONS
from hlo2tx8.device.isa.kc_move import KC_MOVES
from hlo2tx8.device.isa.kc_vector import KC_VECTOR_OPERATIONS
from hlo2tx8.device.isa.lsu import LSU
from hlo2tx8.device.isa.ne import NE
from hlo2tx8.device.isa.ne_conv import NE_CONVOLUTIONS
from hlo2tx8.device.isa.tdma import TDMA

INSTRUCTIONS: tuple[type[Instruction], ...] = (
    *CT_ARITHMETIC,
    *CT_RELATIONS,
    *CT_FUNCTIONS,
    *CT_MOVES,
    *CT_REDUCTIONS,
    *CT_POOLS,
    *KC_VECTOR_OPERATIONS,
    *KC_FUNCTIONS,
    *KC_MOVES,
    *KC_CONTROL,
    *KC_SCALARS,
    *LSU,
    *NE,
    *NE_CONVOLUTIONS,
    *CT_BIT_RELATIONS,
    *CT_LOGIC,
    *CT_ACTIVATIONS,
    *CT_AUXILIARY,
    *TDMA,
    *DTE,
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
