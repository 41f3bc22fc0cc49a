/* The machine for main programs: tiles, tensors, parameter blocks of engines and what runs a program. tx8.h has the instructions besides. */
#ifndef TX8_MODEL_H
#define TX8_MODEL_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define MAX_SHAPE_DIM 6

typedef enum OP_INSTR_TYPE { I_CGRA, I_NEUR, I_RDMA, I_WDMA, I_TDMA, I_SCALAR, I_DTE } OP_INSTR_TYPE;

/* Of a tensor, a whole one and the slice of it that is meant. */
typedef struct L_SHAPE {
    int32_t shape_whole[MAX_SHAPE_DIM];
    int32_t shape_start[MAX_SHAPE_DIM];
    int32_t shape_slice[MAX_SHAPE_DIM];
    int32_t shape_real[MAX_SHAPE_DIM];
    int32_t dim;
} L_SHAPE;

/* Of what a loop loads slice by slice: from where, to where, where the next slice begins, how long slices are; `done` ends it. */
typedef struct G_SHAPE {
    int32_t spatial_start[MAX_SHAPE_DIM];
    int32_t spatial_end[MAX_SHAPE_DIM];
    int32_t dynamic_offset[MAX_SHAPE_DIM];
    int32_t shape[MAX_SHAPE_DIM];
    int32_t dim;
    int32_t done;
    int32_t batch_offset[MAX_SHAPE_DIM];
} G_SHAPE;

static inline G_SHAPE TsmSlices(int32_t start, int32_t end, int32_t size) {
    const G_SHAPE slices = {{start}, {end}, {start}, {size}, 1, start >= end, {0}};
    return slices;
}
static inline void TsmNextSlice(G_SHAPE *slices) {
    slices->dynamic_offset[0] += slices->shape[0];
    slices->done = slices->dynamic_offset[0] >= slices->spatial_end[0];
}

/* `addr` of a tensor in DDR is the number of its slot, which a launch binds to memory. */
typedef struct TSR {
    Data_Format format;
    uint64_t addr;
    L_SHAPE *shape;
} TSR;

#define TSM_MOST_OPERANDS 28

typedef struct TsmCtlRegs {
    uint16_t opcode;
    uint8_t format, source_format, rounding, engine;
} TsmCtlRegs;

typedef struct TsmParamRegs {
    uint64_t num;
    int64_t operand[TSM_MOST_OPERANDS]; /* in the order of docs/isa.md */
} TsmParamRegs;

#define TSM_PARAM(name, unit)                             \
    typedef TsmCtlRegs Ncc_##unit##_GR_Ctl_Regs;          \
    typedef TsmParamRegs Ncc_##unit##_GR_Param_Regs;      \
    typedef struct name {                                 \
        uint32_t inter_type;                              \
        Ncc_##unit##_GR_Ctl_Regs ctrl;                    \
        Ncc_##unit##_GR_Param_Regs param;                 \
    } name
TSM_PARAM(CT_Param, CT);
TSM_PARAM(TsmNeInstr, NE);
TSM_PARAM(DMA_Param, DMA);
TSM_PARAM(TD_Param, TDMA);
TSM_PARAM(DTE_Param, DTE);
TSM_PARAM(SC_Param, SC); /* the vector unit of the kernel core */

/* A tile's kernel core: its number, and cycles of scalars since it last issued something, which the program counts by KC_CYCLES. */
typedef struct Tile {
    int32_t id;
    int64_t cycles;
} Tile;

#define KC_CYCLES(n) (tile->cycles += (n))
#define ADD_VALID_CYCLE(total, single) ((total) + (single))

uint64_t TsmExecute(const void *param); /* enqueues an instruction; cycles of its engine, by itself; 0 where time is not modelled */
void TsmWait(uint32_t engines);         /* for what was issued to engines of this mask */
void TsmBarrier(void);                  /* of the kernel cores of all tiles */
int64_t TsmLoadScalar(int64_t address, Data_Format format); /* an integer in SPM, which the program has waited for */
void TsmFail(const char *why) __attribute__((noreturn));

static inline int64_t TsmDiv(int64_t a, int64_t b) {
    if (!b) TsmFail("division by zero");
    return b == -1 ? -a : a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static inline int64_t TsmMod(int64_t a, int64_t b) { return a - TsmDiv(a, b) * b; }
static inline int64_t TsmMin(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t TsmMax(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t TsmBits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

typedef enum TsmSlotKind { TSM_INPUT, TSM_OUTPUT, TSM_CONSTANT, TSM_SCRATCH } TsmSlotKind;

/* A range of DDR. `index` numbers in<index>.bin and out<index>_cmodel.bin; of a constant it is the byte in const.bin where it begins. An
 * output may take over an input. */
typedef struct TsmSlot {
    TsmSlotKind kind;
    int64_t index, size;
    int32_t takes_over; /* the input's index, or -1 */
} TsmSlot;

/* `program_bytes` are fetched while tiles are launched; tiles of a linked program reach each other's SPM. */
typedef struct TsmProgram {
    const char *name;
    const TsmChip *chip;
    const TsmSlot *slots;
    int32_t num_slots, is_linked;
    int64_t program_bytes;
    void (*tile_main)(Tile *tile);
} TsmProgram;

/* Reads FOLDER/chip0/agent/data (the first argument, else the current folder), runs all tiles and writes the results; 0, or an exit code. */
int TsmRun(const TsmProgram *program, int argc, char **argv);

#endif
