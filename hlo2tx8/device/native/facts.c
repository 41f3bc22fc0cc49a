/* What the instruction classes state, by opcode. */
#include "core.h"
#include "operations.h"

const struct fact facts[NUM_OPCODES] = FACTS;
const u32 format_masks[][NUM_FORMATS] = FORMAT_MASKS;
