/* The machine while it runs: decoded records, tiles, workers. */
#ifndef HLO2TX8_CORE_H
#define HLO2TX8_CORE_H

#include <pthread.h>

#include "base.h"
#include "kernels_reduce.h"

#define ABI_VERSION 10
#define NUM_REGISTERS 64
#define TILE_REGISTER 1 /* holds the tile's number */
#define MAX_TILES 64
#define MAX_DEPTH 512
#define MAX_COUNTERS 32 /* of loops around a fault, the innermost ones */
#define MAX_THREADS 256
#define SCRATCH_REGIONS 4
#define PRODUCT_BYTES (1 << 23) /* behind them, for products of the matrix engine */
#define MAX_DEFERRED 16
#define NUM_STREAMS 4            /* of DDR that a tile reads one behind the other */
#define MAX_BOXES 64
#define MAX_REPEATS 4
#define LEVELS 3                 /* of a strided box */
#define STREAM_SLOT_BYTES (1 << 22) /* results in smaller slots may be read again soon: they stay in the cache */

/* In the order of device.faults.FaultKind where the core raises them; see launch.py. */
enum fault_kind { FAULT_NONE, FAULT_ILLEGAL_OPCODE, FAULT_OUT_OF_BOUNDS, FAULT_BAD_DESCRIPTOR, FAULT_UNEQUAL_BARRIER, FAULT_RUNAWAY, FAULT_UNPUBLISHED };

struct tx8_slot {
    u8 *data;
    i64 size;
};

struct tx8_fault {
    i64 kind, tile, record, num_counters;
    i64 counters[MAX_COUNTERS];
    char detail[160];
};

enum form {
    FORM_HALT, FORM_LOOP, FORM_END, FORM_IF, FORM_EXIT, FORM_FUNCTION, FORM_RETURN, FORM_CALL, FORM_NOTHING, FORM_WAIT, FORM_BARRIER, FORM_AFFINE, FORM_SCALAR, FORM_LOAD_SCALAR,
    FORM_UNARY, FORM_BINARY, FORM_VS, FORM_UNIT, FORM_UNIT_LOOP, FORM_CONVERT_CT, FORM_CONVERT_KC, FORM_MASK_MOVE,
    FORM_TEST, FORM_COMPARE, FORM_SELECT, FORM_IOTA, FORM_GATHER, FORM_SCATTER, FORM_REDUCE_PRECISION,
    FORM_RDMA, FORM_WDMA, FORM_TDMA, FORM_MEMSET, FORM_GEMM, FORM_CONV, FORM_REDUCE, FORM_POOL, FORM_POOL_INDEXED, FORM_UNPOOL,
    FORM_UNPOOL_INDEXED, FORM_RELATION_BITS, FORM_BITS, FORM_BIT_TO_FLOAT, FORM_COUNT, FORM_EXTREME, FORM_SCALED, FORM_UNPUBLISHED,
    FORM_TENSOR_MOVE, FORM_REMOTE_SEND, FORM_REMOTE_GATHER
};

/* What the elements of a record are computed of. */
enum shape { SHAPE_NONE, SHAPE_ONE, SHAPE_TWO, SHAPE_IMMEDIATE, SHAPE_UNIT, SHAPE_UNIT_LOOP };

/* What an instruction's class states, see the fields of the same names there. `function`, `integer`, `pred` and `program` number what it computes
 * of floats, integers and PRED; `exactness` is the test for exact results, 0 if it sets no status bits; `nearest` and `directed` are
 * the rows of format_masks for rounding to nearest even and otherwise; `rounds`: of the latter there is more than one result. */
struct fact {
    u8 is_known, form, function, integer, pred, program, exactness, has_poles, is_low_precision, averages, rounds, nearest, directed;
    enum shape shape;
    enum join join;
};
extern const struct fact facts[NUM_OPCODES];
extern const u32 format_masks[][NUM_FORMATS]; /* bit t of entry s: format t from source format s */

/* Places of a record in SPM, or in a DDR slot, that are known before it runs, see quick.c: n elements, or runs of n bytes at levels. */
struct quick {
    int is_ready, num;
    i64 first, end; /* of all it reaches of SPM */
    int is_whole;   /* are all those `written` bytes written? */
    i64 dst, src[3], n, ddr_bytes;
    i64 written, read[3]; /* bytes of SPM from dst on, from src on */
    u64 scalar;
    binary_kernel kernel; /* of a comparison */
    struct level levels[LEVELS];
};

/* A record made ready: its form, formats and kernel; `partner` is the record index of the other end of a block, for an exit of its loop's end;
 * of an affine sum the number of products that are not zero for certain. */
struct step {
    const struct fact *fact;
    u16 opcode;
    u8 form, fmt, fmt2, rounding;
    int bytes, bytes2;
    int is_directed; /* are exact results rounded in another way than to nearest even? */
    i64 partner;
    u64 written; /* set of registers that are written on every way to it */
    int chain; /* records from here on that a chain may take, this one included; 0 if none starts here */
    union {
        unary_kernel unary;
        binary_kernel binary;
    } kernel;
    struct quick quick;
    binary_kernel other; /* a comparison's kernel for the total order; of a record with units the one that repeats 64 elements */
};

/* A record that only computes, branches or loops, in one line of the host's cache, see scalars.c. Operands are registers a and b plus numbers x
 * and y, one of the two is zero; of an affine sum products of registers r and numbers k besides. */
enum scalar_kind {
    SCALAR_NONE, SCALAR_NOTHING, SCALAR_AFFINE_TWO, SCALAR_AFFINE, SCALAR_MIN, SCALAR_MAX, SCALAR_MUL, SCALAR_LESS, SCALAR_DIV, SCALAR_MOD, SCALAR_IF,
    SCALAR_LOOP, SCALAR_END
};
struct scalar {
    u8 kind, rd, a, b, r[4];
    i64 x, y, k[4], partner;
};

/* Nobody writes a slot; whoever writes it names it; or it lies where another one is written. */
enum staying { STAYS_UNKNOWN, STAYS_NOT, STAYS_NAMED, STAYS };

enum tile_state { TILE_RUNNING, TILE_WAITING, TILE_ENDED, TILE_FAULT };

struct loop {
    i64 record, counter, hi, step;
};

/* `bytes` of SPM from dst on are those of DDR from src on, in a slot, not copied yet. */
struct deferred_load {
    u8 *dst;
    const u8 *src;
    i64 bytes, slot;
};

/* Loads that lie behind each other in DDR, the last of `bytes` up to `end`; the host has been asked for all up to `warm`. The tile had
 * done `work` then, and asks for `pace` / 256 bytes with each byte it computes, so as to be done when the next load comes. */
struct stream {
    const u8 *warm, *end;
    i64 bytes, work, pace;
    int was_asked; /* for some of the last one, before it came */
};

/* The same of a strided box that reads `src_bytes` from src on. */
struct box_load {
    u8 *dst;
    const u8 *src;
    i64 bytes, src_bytes, run;
    struct level levels[LEVELS];
    i64 slot;
};

/* Ranges of SPM, as offsets. */
struct pending {
    i64 num;
    struct {
        i64 first, end;
    } ranges[MAX_DEFERRED + MAX_BOXES];
};

/* `bytes` of SPM from `start` on are the first `period` of them over and over. */
struct repeat {
    const u8 *start;
    i64 bytes, period;
};

/* A number that a record loaded into a register, so often in a row. */
struct decision {
    i64 tile, record, number, times;
};

/* Of a tile, in order; `last` is 1 + the last row of each record. */
struct decisions {
    struct decision *rows;
    i64 num, room;
    i32 *last;
};

/* Up to `loops` zero when a run begins. */
struct tile {
    enum tile_state state;
    u32 status; /* bits of enum status_code */
    i64 at;
    u8 *spm;
    i64 unused, used; /* bytes of SPM before the first and up to the last one that a record reached; what is only noted does not count */
    i64 remote_used;  /* the same of other tiles' records; shared */
    int depth, num_returns, num_deferred, num_boxes;
    u32 next_stream;
    i64 work, pace, owed; /* bytes computed; the streams' paces; what is to be asked for, times 256 */
    struct stream streams[NUM_STREAMS];
    int num_repeats;
    struct repeat repeats[MAX_REPEATS];
    i64 registers[NUM_REGISTERS];
    i64 turns; /* of loops, and calls, that have ended */
    i64 phase, num_phases; /* the one under way, see phases.c, or -1 where nothing is known of it; how many have ended */
    struct loop loops[MAX_DEPTH];
    i64 returns[MAX_DEPTH]; /* the records behind the calls under way */
    struct deferred_load deferred[MAX_DEFERRED];
    struct box_load boxes[MAX_BOXES];
    struct {
        i64 first[MAX_BOXES], end[MAX_BOXES];
    } in_spm, in_ddr; /* where they are to be, as offsets, and what they read, as addresses: looked through all the time */
    i32 slots[MAX_BOXES]; /* of DDR */
    struct decisions decisions;
    struct tx8_fault fault;
    struct mail {
        struct letter *rows;
        i64 num, room;
    } sent[2];                  /* to other tiles in this phase and the one before, by turns */
    struct pending pending[2]; /* likewise what is put off where the phase begins */
};

/* The last phase in which a thread took this tile. */
struct claim {
    u64 phase;
    u8 apart[LINE_BYTES - sizeof(u64)];
};

/* The last phase in which a worker ran tiles, and the barrier that all of them wait at, or -1. */
struct arrival {
    u64 phase;
    i64 at;
    u8 apart[LINE_BYTES - 2 * sizeof(u64)];
};

struct machine {
    const u64 *code;
    struct step *steps;
    struct scalar *scalars; /* of each record, of kind SCALAR_NONE where tile.c runs it */
    i64 num_records;
    const struct tx8_slot *slots;
    i64 num_slots;
    u8 *stores;   /* of each slot: does a record write there? */
    u8 *named;    /* [register, slot]: can a register hold that slot's number? Of those that stores name a slot with, NULL if there are none */
    u64 is_named; /* set of registers of which it is known */
    u8 *stays;    /* of each slot: are its bytes the same as long as the program runs? enum staying */
    struct phases *phases; /* NULL: unknown */
    i64 spm_bytes;
    u8 *spm;
    int keeps_status;
    int is_trusted; /* the program reads nothing of SPM that it did not write: what the last run left there does not matter */
    i64 left_bytes; /* of each SPM that may not be zero between two runs */
    const u8 *decides; /* of each record: is what it loads kept? NULL if nothing is */
    i64 most_decisions;
    double satrelu_bound, leakyrelu_slope; /* NaN where the chip description does not set them */
    int has_gemm;
    i64 final_barrier; /* behind which tiles only halt; num_records if there is none */
    int is_over;       /* the last run is done: the next one begins anew */
    int is_linked; /* tiles reach each other's SPM: each has its own from the first to the last record */
    int num_tiles, num_threads;
    struct tile tiles[MAX_TILES];
    u64 *own_code;      /* of a machine that is given instructions one by one, see stream.c; else NULL */
    struct step *heads; /* records with some first words by themselves, of each tile */
    double deadline;
    i64 most_turns; /* of loops, on each tile */
    /* workers */
    pthread_t workers[MAX_THREADS];
    int num_workers;
    pthread_mutex_t mutex;
    pthread_cond_t start, done;
    int asleep, is_waiting, leave; /* workers that want `start` signalled; does thread 0 want `done`? */
    int goes_on; /* tiles that wait at `barrier`, which are all, go on when they are run next */
    i64 barrier;
    struct {
        u8 apart[LINE_BYTES];
        u64 number; /* of the phase, from 1; of those that workers share */
        u8 from[LINE_BYTES];
        int done; /* tiles that workers have run in it */
        u8 others[LINE_BYTES];
    } phase;
    struct claim claims[MAX_TILES];
    struct arrival arrivals[MAX_THREADS];
    u8 *scratch[MAX_THREADS];
    u8 *spare[MAX_THREADS]; /* the zeroed SPM of a tile that ended on this thread */
    int next_spm;
};

#define SPM_GAP_BYTES 12288 /* behind a tile's SPM, where a sanitizer faults; whole pages, and apart in the sets of a cache */
static inline i64 spm_stride(const struct machine *m) { return m->spm_bytes + SPM_GAP_BYTES; }
static inline size_t arena_bytes(const struct machine *m) { return (size_t)spm_stride(m) * (size_t)m->num_tiles; }

/* Does a run find zeros in SPM? Where exception bits are kept also the padding of operands counts, which nobody wrote. */
static inline int finds_zeros(const struct machine *m) { return !m->is_trusted || m->keeps_status; }

static inline void reach_spm(struct tile *t, i64 first, i64 end) {
    if (end > t->used) t->used = end;
    if (first < t->unused) t->unused = first;
}

/* Where a record executes: a tile and the scratch of the thread, SCRATCH_REGIONS of an SPM's size and PRODUCT_BYTES. */
struct context {
    struct machine *machine;
    struct tile *tile;
    u8 *scratch;
    const u64 *record;
    const struct step *step;
    int knows_deferred, knows_boxes;
    int knows_repeats;
    int only_notes; /* the record is being put off: it reaches no SPM yet */
    int num_units; /* of records, kept in the scratch */
};

/* An elementwise record with its operands found. `dst` is `target`, the place it writes, or scratch; `is_plain`: no scratch is used. */
struct link {
    const struct step *step;
    u8 *target, *dst;
    const u8 *src[3];
    i64 n, dst_bytes, src_bytes[3];
    i64 turn[3]; /* elements after which a source begins again; 0: never */
    int num, is_plain, is_streamed;
    u64 scalar;
    const u8 *unit; /* u elements, repeated along `round` elements; the next round has the next */
    i64 u, round;
    const u8 *whole; /* what it reads besides, not element by element */
    i64 whole_bytes;
    i64 zero; /* of a conversion, and its seed */
    u32 seed;
    binary_kernel kernel;
    pair_kernel pair; /* computes this record and the one behind it, which takes `third` to what this one would write; NULL: alone */
    const u8 *third;
    i64 third_turn;
};

/* Bytes to element `at`. */
static inline i64 turned(i64 at, i64 turn, i64 bytes) { return (turn ? at % turn : at) * bytes; }
int resolve_link(struct context *c, struct link *k); /* 0, the fault, or -1 if the record is not elementwise */
void apply_link(const struct link *k, i64 at, i64 n);
/* The same of a record that is_directed: n elements, the first of which has the number `at`. */
void apply_directed(const struct link *k, u8 *dst, const u8 *a, const u8 *b, i64 at, i64 n);
void scale_directed(const struct step *s, u8 *dst, const u8 *src, const void *factor, i64 n); /* products with one number of the format */
void note_repeat(struct context *c, const u8 *start, i64 period, i64 n); /* a record has written `period` bytes n times */
void forget_repeats(struct tile *t, const u8 *start, i64 bytes);         /* SPM may be written */
void find_turns(const struct tile *t, struct link *k, i64 block);         /* of a link's sources if `block` elements are taken at once, each within a turn */
int resolve_dma(struct context *c, struct link *k); /* a dense RDMA or WDMA as a link; -1 if it is not dense */
int defer_load(struct context *c);                        /* 1: the RDMA record is done; 0: it must copy; -1: settle first, then it must */
int read_deferred(struct tile *t, struct link *k);        /* 0: it reads DDR in place of loads put off; -1: settle first, nothing has changed */
void overwrite_deferred(struct tile *t, const struct link *k); /* forgets loads whose bytes the link writes */
int is_deferred(const struct tile *t, const u8 *start, i64 bytes); /* is a load put off that touches an SPM range? */
int overwrite_loads(struct tile *t, const u8 *start, i64 bytes);   /* an SPM range is about to be written; 0 if that leaves two parts of one */
enum staying staying_of(struct machine *m, i64 slot);
void find_phases(struct machine *m);
void find_stores(struct machine *m);
int writes_register(const struct step *s);
const u8 *stored_slots(const struct machine *m, i64 at); /* of each slot, may a store whose slot is in a register be to it? NULL: not known */
i64 phase_after(const struct machine *m, i64 barrier); /* the phase that a barrier begins; -1: nothing is known of it */
int changes(struct machine *m, i64 phase, i64 slot); /* may somebody write in a phase what a slot of DDR holds? */
/* Or in the next one, or tiles reach each other's SPM then to read it? */
int changes_soon(struct machine *m, i64 phase, i64 slot);
int may_send(const struct machine *m, i64 phase); /* may a tile write to another's SPM in a phase? */
int may_gather(const struct machine *m, i64 phase); /* or read there? */
void forget_mail(struct tile *t);
void deliver(struct machine *m, struct tile *t); /* a phase begins: what was sent to the tile in the one before */
void post_pending(struct tile *t, int turn); /* what is put off now, for those that will send */
int reads_pending(const struct tile *t, const u8 *start, i64 bytes); /* is a load put off, or a box, that reads of a DDR range? */
void settle_loads(struct tile *t);
void meet_others(struct machine *m, struct tile *t); /* at a barrier: what other tiles may write is read before */
void settle_range(struct tile *t, const u8 *start, i64 bytes);   /* those that touch an SPM range */
void settle_sources(struct tile *t, const u8 *start, i64 bytes); /* those that read a DDR range */
/* Where the bytes of an SPM range are read that a record reads whole, writing only `target`: in DDR if their load was put off. */
const u8 *read_in_place(struct tile *t, const u8 *src, i64 bytes, const u8 *target, i64 target_bytes);
void follow_load(struct tile *t, const u8 *src, i64 bytes); /* a load is put off */
int was_asked(const struct tile *t, const u8 *src); /* for some of the load at src, before it came */
void note_read(struct tile *t, const u8 *src, i64 bytes);   /* it is being read */
int resolve_box(struct context *c, struct box_load *box); /* an RDMA as a box; -1 if it is dense */
int defer_box(struct context *c);                         /* 1: the RDMA record is done; 0: it is not */
/* 1: a TDMA record is done that reads a box put off, at `src` in DDR, and writes dst; 0: it is not. */
int defer_move(struct tile *t, u8 *dst, const u8 *src, i64 run, const struct level *levels);
int resolve_store(struct context *c, struct box_load *to, int *is_streamed); /* a WDMA as a box of DDR, read densely; 0 or the fault */
int store_box(struct context *c);                         /* 1: the WDMA record has copied a box put off; 0: it has not */
/* Where `num` levels of runs, `bytes` from the first to the last, are read that begin at src in SPM: in DDR if they are in a box put off,
 * with the levels changed to match. NULL if they are not. */
const u8 *read_box(const struct tile *t, const u8 *src, i64 run, i64 bytes, struct level *levels, int num);
void settle_boxes(struct tile *t, const u8 *start, i64 bytes);

/* Does any of so many ranges meet another one? */
static inline int meets_ranges(const i64 *first, const i64 *end, int num, i64 from, i64 to) {
    i64 met = 0;
    for (int i = 0; i < num; i++) met |= (first[i] < to) & (from < end[i]);
    return (int)met;
}
static inline int meets_boxes(const struct tile *t, const u8 *start, i64 bytes) {
    const i64 from = start - t->spm;
    return t->num_boxes && meets_ranges(t->in_spm.first, t->in_spm.end, t->num_boxes, from, from + bytes);
}
static inline int meets_sources(const struct tile *t, const u8 *start, i64 bytes) {
    const i64 from = (i64)(uintptr_t)start;
    return t->num_boxes && meets_ranges(t->in_ddr.first, t->in_ddr.end, t->num_boxes, from, from + bytes);
}
void add_box(struct tile *t, const struct box_load *box); /* no other one meets it */
void add_load(struct tile *t, const struct deferred_load *load);
void settle_changing_boxes(struct machine *m, struct tile *t, i64 phase); /* those of DDR that somebody writes then, or that other tiles may read */
void settle_box_sources(struct tile *t, const u8 *start, i64 bytes);
void overwrite_boxes(struct tile *t, const u8 *start, i64 bytes); /* an SPM range is about to be written */
#define WHOLE_PACE 256 /* one byte asked for with each byte computed */
#define LEAST_AHEAD 256 /* bytes asked for at once */
void ask_ahead(struct tile *t, i64 bytes); /* for some of what comes next */

/* Asks for some of what comes next while `bytes` are computed. */
static inline void prefetch_beside(struct tile *t, i64 bytes) {
    t->work += bytes;
    t->owed += bytes * t->pace;
    if (t->owed < LEAST_AHEAD * WHOLE_PACE) return;
    ask_ahead(t, t->owed / WHOLE_PACE);
    t->owed = 0;
}
i64 run_chain(struct context *c, i64 at);           /* the record after a chain of links run block by block; `at` if there is none */

int resolve_pair(struct context *c, struct link *k, i64 n); /* dst and one source of n elements in the record's format: operands 0 and 1 */
int resolve_pair_from(struct context *c, struct link *k, i64 n, int in_place); /* the same; the source may be where a load put off finds it */
int resolve_unit(struct context *c, struct link *k, int in_place);             /* likewise a record with units; -1 out of place if they are put off */
void use_unit(struct context *c, struct link *k, const u8 *unit, i64 u, i64 round);
void apply_unit(const struct link *k, u8 *dst, const u8 *a, i64 at, i64 n);
int finish_link(const struct link *k);                      /* what was computed in scratch goes to its place */
u8 *target_range(struct context *c, i64 address, i64 n, i64 bytes); /* as spm_range, of what a record writes wholly once it has its sources */
u8 *region_of(struct context *c, int region);               /* of the scratch: 0 to 2 for sources, 3 for a result */
const u8 *apart(struct context *c, const u8 *src, i64 n, i64 bytes, const u8 *dst, i64 dst_bytes, int region);

int prepare(struct machine *machine, struct tx8_fault *fault); /* 0 if all records are sound */
int prepare_step(struct machine *m, i64 record, struct tx8_fault *fault); /* the record by itself; 0, or the fault of one that is none */
void find_chains(struct machine *m, i64 first, i64 end);
void prepare_quick(struct machine *m, struct step *s, const u64 *record);
void prepare_scalar(struct scalar *s, const struct step *step, const u64 *record); /* of a program whose blocks are closed */
int run_quick(struct context *c);                             /* 1 if the record is done, 0 if it is to be executed */
int is_short(const struct context *c);                        /* nothing is gained by chains or by putting the record off */
int execute(struct context *c);                               /* a vector or DMA record; 0 or the fault kind */
int execute_move(struct context *c);                          /* DMA, TDMA, iota, gather, scatter */
int execute_bits(struct context *c);                          /* packed bools */
int execute_auxiliary(struct context *c);                     /* counts, extremes, activations with a constant of the chip */
int execute_remote(struct context *c);                        /* DTE */
int execute_gemm(struct context *c);
int execute_conv(struct context *c);
int execute_pool(struct context *c);
int execute_tdma(struct context *c); /* TDMA on whole tensors */
int execute_kept(struct context *c); /* execute, and note the exception bits */
int execute_reduce(struct context *c);

void keep_decision(struct machine *m, struct tile *t, i64 record, i64 number); /* a record loaded a number into a register */
void forget_decisions(struct machine *m);

static inline int is_engine_mask(i64 engines) { return engines >= 0 && engines < 2 << ENGINE_KC; }

static inline size_t scratch_bytes(const struct machine *m) { return SCRATCH_REGIONS * (size_t)m->spm_bytes + PRODUCT_BYTES; }
int fail(struct context *c, int kind, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Limits of an operand. */
struct bound {
    const char *name;
    i64 least, most;
};
#define COUNT_OF(array) ((int)(sizeof(array) / sizeof *(array)))
int check_bounds(struct context *c, const struct bound *bounds, int num); /* 0 if all operands are within them */

static inline i64 operand(const struct context *c, int k) {
    const i64 value = (i64)c->record[HEADER_WORDS + k];
    return c->record[1] >> k & 1 ? c->tile->registers[value & (NUM_REGISTERS - 1)] : value;
}

static inline void set_register(struct tile *t, u64 number, i64 value) {
    if (number) t->registers[number & (NUM_REGISTERS - 1)] = value;
}

static inline void run_affine(struct context *c) {
    u64 sum = (u64)operand(c, KC_AFFINE__C);
    for (int k = KC_AFFINE__R1; k < KC_AFFINE__R1 + 2 * c->step->partner; k += 2) sum += (u64)operand(c, k) * (u64)operand(c, k + 1);
    set_register(c->tile, c->record[HEADER_WORDS + KC_AFFINE__RD], (i64)sum);
}

/* Strides and turns of a box's `num` levels from operand k on, in pairs, innermost first; 0 or the fault. */
int read_levels(struct context *c, int k, int num, i64 *strides, i64 *turns);
i64 box_extent(const i64 *strides, const i64 *turns, int num, i64 run); /* elements from the first to behind the last; -1: too many */
i64 box_product(const i64 *turns, int num, i64 run);                    /* elements moved; -1: too many */

/* The address of `n` elements of `bytes` in SPM, or NULL after a fault. */
i64 spm_end(struct context *c, i64 address, i64 n, i64 bytes); /* where they end, or -1 after a fault */
u8 *spm_range(struct context *c, i64 address, i64 n, i64 bytes);

#endif
