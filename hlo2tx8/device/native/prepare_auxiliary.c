/* Records of CT logic, packed bools, activations, auxiliary instructions and of TDMA on whole tensors made ready to run. */
#include "core.h"

static int is_ct_float(int fmt) { return float_index_of(fmt) >= 0 && fmt != FORMAT_FP64; }

/* VV, nothing, VuV, VuV_loop by the last two bits of the opcode. */
static int prepare_logic(struct step *s) {
    static const u8 forms[] = {FORM_BINARY, FORM_UNPUBLISHED, FORM_UNIT, FORM_UNIT_LOOP};
    s->form = forms[s->opcode & 3];
    s->kernel.binary = float_binary_kernel(s->opcode, s->fmt, 0);
    return s->form != FORM_UNPUBLISHED && s->kernel.binary;
}

static int prepare_relation(struct step *s) {
    s->form = FORM_RELATION_BITS;
    const int numbers = s->opcode - OP_CT_BITS_EQ_VV + OP_CT_EQ_VV;
    s->kernel.binary = float_binary_kernel(numbers, s->fmt, (s->opcode & 3) == 1);
    s->other = float_unit_kernel(numbers, s->fmt);
    return s->kernel.binary != NULL;
}

static int prepare_unary(struct step *s) {
    s->form = FORM_UNARY;
    s->kernel.unary = float_unary_kernel(s->opcode, s->fmt);
    if (!s->kernel.unary) s->kernel.unary = function_kernel(s->opcode, s->fmt);
    return s->kernel.unary != NULL;
}

int prepare_auxiliary(struct step *s) {
    const int op = s->opcode, fmt = s->fmt;
    switch (op) {
    case OP_CT_BITS_NOT:
    case OP_CT_BITS_AND_BINARY: case OP_CT_BITS_AND_UNIT: case OP_CT_BITS_AND_UNIT_LOOP:
    case OP_CT_BITS_OR_BINARY: case OP_CT_BITS_OR_UNIT: case OP_CT_BITS_OR_UNIT_LOOP:
    case OP_CT_BITS_XOR_BINARY: case OP_CT_BITS_XOR_UNIT: case OP_CT_BITS_XOR_UNIT_LOOP: s->form = FORM_BITS; return fmt == FORMAT_BOOL;
    case OP_CT_BIT_COUNT: s->form = FORM_UNPUBLISHED; return fmt == FORMAT_BOOL;
    case OP_CT_FACTORIZE: s->form = FORM_UNPUBLISHED; return fmt == FORMAT_FP32;
    case OP_CT_LOOKUP16:
        s->form = FORM_UNPUBLISHED;
        return fmt == FORMAT_INT16 || fmt == FORMAT_FP16 || fmt == FORMAT_BF16 || fmt == FORMAT_UINT16;
    case OP_CT_LOOKUP32:
        s->form = FORM_UNPUBLISHED;
        return fmt == FORMAT_INT32 || fmt == FORMAT_FP32 || fmt == FORMAT_TF32 || fmt == FORMAT_UINT32;
    case OP_TDMA_TRANSPOSE: case OP_TDMA_MIRROR: case OP_TDMA_ROTATE90: case OP_TDMA_ROTATE180: case OP_TDMA_ROTATE270:
    case OP_TDMA_NCHW_TO_NHWC: case OP_TDMA_NHWC_TO_NCHW: case OP_TDMA_CONCAT: case OP_TDMA_PAD: case OP_TDMA_CHANNEL_NORM:
    case OP_TDMA_UNFOLD: s->form = FORM_TENSOR_MOVE; return 1;
    default: break;
    }
    if (!is_ct_float(fmt)) return 0;
    if (op <= OP_CT_BITS_LT_VU_VLOOP) return prepare_relation(s);
    if (op <= OP_CT_XOR_VU_VLOOP) return prepare_logic(s);
    switch (op) {
    case OP_CT_NOT: case OP_CT_RELU: case OP_CT_SOFTPLUS: case OP_CT_EXP_LOW_PRECISION: return prepare_unary(s);
    case OP_CT_SAT_RELU: case OP_CT_LEAKY_RELU: s->form = FORM_SCALED; return 1;
    case OP_CT_COUNT: s->form = FORM_COUNT; return 1;
    case OP_CT_ARG_MAX: case OP_CT_ARG_MIN: s->form = FORM_EXTREME; return 1;
    case OP_CT_BIT_TO_FLOAT: s->form = FORM_BIT_TO_FLOAT; return 1;
    case OP_CT_BILINEAR: case OP_CT_RANDOM: case OP_CT_ELEMENT_MASK: case OP_CT_MASK_GATHER: case OP_CT_MASK_GATHER_BITS:
        s->form = FORM_UNPUBLISHED;
        return 1;
    default: return 0;
    }
}
