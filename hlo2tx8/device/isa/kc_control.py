"""Kernel-core control and scalar instructions: loops, branches, address arithmetic, waits and the barrier."""

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.base import instruction
from hlo2tx8.device.isa.extents import Elements
from hlo2tx8.device.isa.fields import Engine, Field, Role
from hlo2tx8.device.isa.forms import KcInstruction, KcScalar


@instruction
class KcHalt(KcInstruction):
    """Ends the program."""

    FORM = "HALT"
    MNEMONIC = "KC_halt"
    OPCODE = 160


@instruction
class KcLoop(KcInstruction):
    """for rd = lo; rd < hi; rd += step: the instructions up to the matching end."""

    FORM = "LOOP"
    MNEMONIC = "KC_loop"
    OPCODE = 161
    FIELDS = (
        Field("rd", Role.REGISTER),
        Field("lo", Role.IMMEDIATE),
        Field("hi", Role.IMMEDIATE),
        Field("step", Role.IMMEDIATE, least=1),
    )


@instruction
class KcEnd(KcInstruction):
    """The end of a loop."""

    FORM = "END"
    MNEMONIC = "KC_end"
    OPCODE = 162


@instruction
class KcIf(KcInstruction):
    """if value != 0: the instructions up to the matching end."""

    FORM = "IF"
    MNEMONIC = "KC_if"
    OPCODE = 163
    FIELDS = (Field("value", Role.IMMEDIATE),)


@instruction
class KcEndIf(KcInstruction):
    """The end of a branch."""

    FORM = "NOTHING"
    MNEMONIC = "KC_endif"
    OPCODE = 164


@instruction
class KcExit(KcInstruction):
    """if value = 0: leaves the loop this stands in, outside of any branch of it."""

    FORM = "EXIT"
    MNEMONIC = "KC_exit"
    OPCODE = 174
    FIELDS = (Field("value", Role.IMMEDIATE),)


@instruction
class KcFunction(KcInstruction):
    """The beginning of function `number`, numbered in their order, up to the matching return; outside of a call it is passed by."""

    FORM = "FUNCTION"
    MNEMONIC = "KC_function"
    OPCODE = 197
    FIELDS = (Field("number", Role.IMMEDIATE),)


@instruction
class KcReturn(KcInstruction):
    """The end of a function: goes on behind the call."""

    FORM = "RETURN"
    MNEMONIC = "KC_return"
    OPCODE = 198


@instruction
class KcCall(KcInstruction):
    """The instructions of function `number`, which ends above; registers are the same inside."""

    FORM = "CALL"
    MNEMONIC = "KC_call"
    OPCODE = 199
    FIELDS = (Field("number", Role.IMMEDIATE),)


@instruction
class KcWait(KcInstruction):
    """Waits until every engine e with bit e set in `engines` has finished what was issued."""

    FORM = "WAIT"
    MNEMONIC = "KC_wait"
    OPCODE = 165
    FIELDS = (Field("engines", Role.IMMEDIATE, least=0, most=(1 << len(Engine)) - 1),)


@instruction
class KcBarrier(KcInstruction):
    """Waits until the kernel cores of all tiles are here."""

    FORM = "BARRIER"
    MNEMONIC = "KC_barrier"
    OPCODE = 166


@instruction
class KcAffine(KcInstruction):
    """rd = c + r1*k1 + r2*k2 + r3*k3 + r4*k4."""

    FORM = "AFFINE"
    MNEMONIC = "KC_affine"
    OPCODE = 167
    FIELDS = (
        Field("rd", Role.REGISTER),
        Field("c", Role.IMMEDIATE),
        *(Field(f"{letter}{i}", Role.IMMEDIATE, default=0) for i in (1, 2, 3, 4) for letter in "rk"),
    )


@instruction
class KcFloorDiv(KcScalar):
    """rd = a div b, rounded down."""

    MNEMONIC = "KC_floordiv"
    OPCODE = 168
    FOLD = lambda a, b: a // b


@instruction
class KcMod(KcScalar):
    """rd = a mod b, with the sign of b."""

    MNEMONIC = "KC_mod"
    OPCODE = 169
    FOLD = lambda a, b: a % b


@instruction
class KcMin(KcScalar):
    """rd = min(a, b)."""

    MNEMONIC = "KC_min"
    OPCODE = 170
    FOLD = min


@instruction
class KcMax(KcScalar):
    """rd = max(a, b)."""

    MNEMONIC = "KC_max"
    OPCODE = 171
    FOLD = max


@instruction
class KcMul(KcScalar):
    """rd = a * b."""

    MNEMONIC = "KC_mul"
    OPCODE = 172
    FOLD = lambda a, b: a * b


@instruction
class KcLess(KcScalar):
    """rd = 1 if a < b else 0."""

    MNEMONIC = "KC_less"
    OPCODE = 173
    FOLD = lambda a, b: int(a < b)


@instruction
class KcLoadScalar(KcInstruction):
    """rd = the integer at an SPM address."""

    FORM = "LOAD_SCALAR"
    MNEMONIC = "KC_load_scalar"
    OPCODE = 175
    FORMATS = (
        Format.INT8,
        Format.INT16,
        Format.INT32,
        Format.INT64,
        Format.UINT8,
        Format.UINT16,
        Format.UINT32,
        Format.PRED,
    )
    FIELDS = (Field("rd", Role.REGISTER), Field("address", Role.SPM_READ, Elements()))


KC_CONTROL = (KcHalt, KcLoop, KcEnd, KcIf, KcEndIf, KcExit, KcFunction, KcReturn, KcCall, KcWait, KcBarrier)
KC_SCALARS = (KcAffine, KcFloorDiv, KcMod, KcMin, KcMax, KcMul, KcLess, KcLoadScalar)
