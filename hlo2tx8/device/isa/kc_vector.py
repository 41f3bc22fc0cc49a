"""Kernel-core vector operations on integers and PRED, and the ones of both kinds: HLO's meaning, exactly."""

from hlo2tx8.device.arithmetic import kernel_core_rules as rules
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.base import instruction
from hlo2tx8.device.isa.expressions import bits, comparison, double, integer, kernels, number
from hlo2tx8.device.isa.forms import KC_FLOATS, KC_INTEGERS, KcCompareVV, KcTest, KcV, KcVV


@instruction
class KcVNeg(KcV):
    """dst[i] = -src[i]."""

    MNEMONIC = "KC_V_neg"
    OPCODE = 96
    COMPUTE = rules.negate
    EXPRESSION = bits("x ^ sign")
    INTEGER_EXPRESSION = integer("0 - (U)x")
    PRED_EXPRESSION = integer("x")


@instruction
class KcVAbs(KcV):
    """dst[i] = |src[i]|."""

    MNEMONIC = "KC_V_abs"
    OPCODE = 97
    COMPUTE = rules.absolute
    EXPRESSION = bits("x & ~sign")
    INTEGER_EXPRESSION = integer("S && x < 0 ? (T)(0 - (U)x) : x")


@instruction
class KcVNot(KcV):
    """dst[i] = ~src[i]; logical on PRED."""

    MNEMONIC = "KC_V_not"
    OPCODE = 98
    FORMATS = (*KC_INTEGERS, Format.PRED)
    COMPUTE = rules.bit_not
    INTEGER_EXPRESSION = integer("~x")
    PRED_EXPRESSION = integer("x ^ 1")


@instruction
class KcVSign(KcV):
    """dst[i] = the sign of src[i]."""

    MNEMONIC = "KC_V_sign"
    OPCODE = 99
    COMPUTE = rules.sign
    EXPRESSION = number("x > 0 ? 1 : x < 0 ? -1 : x")
    INTEGER_EXPRESSION = integer("(x > 0) - (x < 0)")


@instruction
class KcVPopCount(KcV):
    """dst[i] = the number of one bits."""

    MNEMONIC = "KC_V_popcnt"
    OPCODE = 100
    FORMATS = KC_INTEGERS
    COMPUTE = rules.population_count
    INTEGER_EXPRESSION = integer("ones((U)x)")
    COST = "kc_count"


@instruction
class KcVCountLeadingZeros(KcV):
    """dst[i] = the number of leading zero bits."""

    MNEMONIC = "KC_V_clz"
    OPCODE = 101
    FORMATS = KC_INTEGERS
    COMPUTE = rules.count_leading_zeros
    INTEGER_EXPRESSION = integer("BITS(T) - (int)ones(smear((U)x))")
    COST = "kc_count"


@instruction
class KcVAdd(KcVV):
    """dst[i] = a[i] + b[i]; or on PRED."""

    MNEMONIC = "KC_VV_add"
    OPCODE = 104
    COMPUTE = rules.add
    EXPRESSION = number("x + y")
    INTEGER_EXPRESSION = integer("(U)x + (U)y")
    PRED_EXPRESSION = integer("x | y")


@instruction
class KcVSub(KcVV):
    """dst[i] = a[i] - b[i]."""

    MNEMONIC = "KC_VV_sub"
    OPCODE = 105
    COMPUTE = rules.subtract
    EXPRESSION = number("x - y")
    INTEGER_EXPRESSION = integer("(U)x - (U)y")
    PRED_EXPRESSION = integer("x ^ y")


@instruction
class KcVMul(KcVV):
    """dst[i] = a[i] * b[i]; and on PRED."""

    MNEMONIC = "KC_VV_mul"
    OPCODE = 106
    COMPUTE = rules.multiply
    EXPRESSION = number("x * y")
    INTEGER_EXPRESSION = integer("(u64)(U)x * (u64)(U)y")
    PRED_EXPRESSION = integer("x & y")


@instruction
class KcVDiv(KcVV):
    """dst[i] = a[i] / b[i], toward zero; x/0 = -1 (all ones), MIN/-1 = MIN."""

    MNEMONIC = "KC_VV_div"
    OPCODE = 107
    COMPUTE = rules.divide
    EXPRESSION = number("x / y")
    INTEGER_EXPRESSION = integer("y == 0 ? (T)-1 : S && y == (T)-1 ? (T)(0 - (U)x) : (T)(x / y)")
    COST = "kc_divide"


@instruction
class KcVRem(KcVV):
    """dst[i] = the remainder with the sign of a[i]; x rem 0 = x."""

    MNEMONIC = "KC_VV_rem"
    OPCODE = 108
    COMPUTE = rules.remainder
    EXPRESSION = number("remainder_of(x, y)")
    INTEGER_EXPRESSION = integer("y == 0 ? x : S && y == (T)-1 ? (T)0 : (T)(x % y)")
    COST = "kc_remainder"


@instruction
class KcVMax(KcVV):
    """dst[i] = max(a[i], b[i])."""

    MNEMONIC = "KC_VV_max"
    OPCODE = 109
    COMPUTE = rules.maximum
    EXPRESSION = number("larger(x, y)")
    INTEGER_EXPRESSION = integer("x > y ? x : y")


@instruction
class KcVMin(KcVV):
    """dst[i] = min(a[i], b[i])."""

    MNEMONIC = "KC_VV_min"
    OPCODE = 110
    COMPUTE = rules.minimum
    EXPRESSION = number("smaller(x, y)")
    INTEGER_EXPRESSION = integer("x < y ? x : y")


@instruction
class KcVAnd(KcVV):
    """dst[i] = a[i] & b[i]."""

    MNEMONIC = "KC_VV_and"
    OPCODE = 111
    FORMATS = (*KC_INTEGERS, Format.PRED)
    COMPUTE = rules.bit_and
    INTEGER_EXPRESSION = integer("x & y")


@instruction
class KcVOr(KcVV):
    """dst[i] = a[i] | b[i]."""

    MNEMONIC = "KC_VV_or"
    OPCODE = 112
    FORMATS = (*KC_INTEGERS, Format.PRED)
    COMPUTE = rules.bit_or
    INTEGER_EXPRESSION = integer("x | y")


@instruction
class KcVXor(KcVV):
    """dst[i] = a[i] ^ b[i]."""

    MNEMONIC = "KC_VV_xor"
    OPCODE = 113
    FORMATS = (*KC_INTEGERS, Format.PRED)
    COMPUTE = rules.bit_xor
    INTEGER_EXPRESSION = integer("x ^ y")


@instruction
class KcVShiftLeft(KcVV):
    """dst[i] = a[i] << b[i]; 0 if b[i] is no bit number."""

    MNEMONIC = "KC_VV_shl"
    OPCODE = 114
    FORMATS = KC_INTEGERS
    COMPUTE = rules.shift_left
    INTEGER_EXPRESSION = integer("(U)y < BITS(T) ? (T)((u64)(U)x << ((U)y & (BITS(T) - 1))) : (T)0")


@instruction
class KcVShiftRightArithmetic(KcVV):
    """dst[i] = a[i] >> b[i] with copies of the sign."""

    MNEMONIC = "KC_VV_sra"
    OPCODE = 115
    FORMATS = KC_INTEGERS
    COMPUTE = rules.shift_right_arithmetic
    INTEGER_EXPRESSION = integer("as_signed(x) >> ((U)y < BITS(T) ? (int)(U)y : BITS(T) - 1)")


@instruction
class KcVShiftRightLogical(KcVV):
    """dst[i] = a[i] >> b[i] with zeros."""

    MNEMONIC = "KC_VV_srl"
    OPCODE = 116
    FORMATS = KC_INTEGERS
    COMPUTE = rules.shift_right_logical
    INTEGER_EXPRESSION = integer("(U)y < BITS(T) ? (T)((U)x >> ((U)y & (BITS(T) - 1))) : (T)0")


@instruction
class KcVPow(KcVV):
    """dst[i] = a[i] to the power b[i]."""

    MNEMONIC = "KC_VV_pow"
    OPCODE = 117
    COMPUTE = rules.power
    EXPRESSION = double("approx_pow_f64(x, y)")
    INTEGER_EXPRESSION = integer("power((U)x, (U)y, S)")
    COST = "kc_power"


@instruction
class KcVAtan2(KcVV):
    """dst[i] = the angle of (b[i], a[i])."""

    MNEMONIC = "KC_VV_atan2"
    OPCODE = 118
    FORMATS = KC_FLOATS
    COMPUTE = rules.atan2
    EXPRESSION = double("approx_atan2_f64(x, y)")
    COST = "kc_angle"


@instruction
class KcVNextAfter(KcVV):
    """dst[i] = the number after a[i] toward b[i]."""

    MNEMONIC = "KC_VV_nextafter"
    OPCODE = 119
    FORMATS = KC_FLOATS
    COMPUTE = rules.next_after
    EXPRESSION = kernels("NEXT_AFTER")
    COST = "kc_round"


@instruction
class KcVEq(KcCompareVV):
    """dst[i] = a[i] == b[i]."""

    MNEMONIC = "KC_VV_eq"
    OPCODE = 120
    COMPUTE = rules.compare_eq
    EXPRESSION = comparison("==")


@instruction
class KcVNe(KcCompareVV):
    """dst[i] = a[i] != b[i]."""

    MNEMONIC = "KC_VV_ne"
    OPCODE = 121
    COMPUTE = rules.compare_ne
    EXPRESSION = comparison("!=")


@instruction
class KcVGe(KcCompareVV):
    """dst[i] = a[i] >= b[i]."""

    MNEMONIC = "KC_VV_ge"
    OPCODE = 122
    COMPUTE = rules.compare_ge
    EXPRESSION = comparison(">=")


@instruction
class KcVGt(KcCompareVV):
    """dst[i] = a[i] > b[i]."""

    MNEMONIC = "KC_VV_gt"
    OPCODE = 123
    COMPUTE = rules.compare_gt
    EXPRESSION = comparison(">")


@instruction
class KcVLe(KcCompareVV):
    """dst[i] = a[i] <= b[i]."""

    MNEMONIC = "KC_VV_le"
    OPCODE = 124
    COMPUTE = rules.compare_le
    EXPRESSION = comparison("<=")


@instruction
class KcVLt(KcCompareVV):
    """dst[i] = a[i] < b[i]."""

    MNEMONIC = "KC_VV_lt"
    OPCODE = 125
    COMPUTE = rules.compare_lt
    EXPRESSION = comparison("<")


@instruction
class KcVIsFinite(KcTest):
    """dst[i] = src[i] is neither infinite nor NaN."""

    MNEMONIC = "KC_V_is_finite"
    OPCODE = 126
    FORMATS = KC_FLOATS
    COMPUTE = rules.is_finite
