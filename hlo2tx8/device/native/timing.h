/* What the timing model is given and gives: what `device/timing/` defines, every tile by itself. */
#ifndef HLO2TX8_TIMING_H
#define HLO2TX8_TIMING_H

#include "base.h"

#define MAX_TIMED_TILES 64
#define TIMED_REGISTERS 64
#define OPERAND_WORDS (RECORD_WORDS - HEADER_WORDS)
#define MAX_RANGES 8
#define MAX_FACTORS 4
#define MAX_LEVELS 3

/* As in device/timing/steps.py, bundle.py and native.py; tx8_time_program refuses other sizes. */
enum timed_op { TIMED_ISSUE = 1, TIMED_WORK, TIMED_SCALAR, TIMED_LOOP, TIMED_END, TIMED_IF, TIMED_EXIT, TIMED_JOIN, TIMED_WAIT, TIMED_BARRIER, TIMED_HALT };
enum timed_fold { FOLD_UNKNOWN, FOLD_AFFINE, FOLD_FLOOR_DIV, FOLD_MOD, FOLD_MIN, FOLD_MAX, FOLD_MUL, FOLD_LESS };
enum of_record { RECORD_INSTRUCTIONS, RECORD_BUSY, RECORD_ELAPSED, RECORD_DDR_BYTES, RECORD_BYTES, RECORD_OPERATIONS, RECORD_LEAST, PER_RECORD };
enum of_tile {
    NUM_CAUSES = 7, ENGINE_BUSY = NUM_CAUSES, ENGINE_INSTRUCTIONS, PER_ENGINE, KC_BASE = PER_ENGINE * NUM_CAUSES, FULL = KC_BASE,
    WAITING = FULL + NUM_CAUSES, BARRIER_WAIT = WAITING + NUM_CAUSES, BARRIER, ISSUE, PER_TILE
};
enum timed_work { WORK_ASKED, WORK_DMA, WORK_TDMA, WORK_CT, WORK_KC, WORK_KC_EACH, WORK_DTE };
enum timed_extent { EXTENT_ASKED, EXTENT_ELEMENTS, EXTENT_SPAN };
enum field_is { FIELD_COUNTS = 1, FIELD_DECIDES = 2, FIELD_IS_SOURCE = 4, FIELD_IS_NUMBER = 8, FIELD_IS_PLACE = 16 };

/* Operands, by number, of runs and the levels they are repeated at; counts and strides times `scale` are bytes. */
struct timed_levels {
    i32 run, scale, num_levels, strides[MAX_LEVELS], counts[MAX_LEVELS];
};

/* SPM bytes from operand `field` on: ceil(product of the factors * scale / divisor), or what the levels span. */
struct timed_extent_of {
    i32 field, is_write, extent, num_factors, factors[MAX_FACTORS], scale, divisor;
    struct timed_levels levels;
};

/* What records with the same first word, but for the engine, have in common. Not known counts as little as it may: `least`. */
struct timed_kind {
    u64 head;
    i32 op, fold, engine, cost, format_bytes, computes, work, num_fields, num_extents, num_sides;
    i32 other_tile, other_tiles; /* operands that name a tile and a set of them; -1: there is none */
    i64 least[OPERAND_WORDS];
    u8 flags[OPERAND_WORDS + 4];
    struct timed_extent_of extents[MAX_RANGES];
    struct timed_levels sides[2];
};

/* SPM bytes from `start` to `end`. */
struct timed_range {
    i64 start, end, is_write;
};

/* A packet goes to `others`, a set of tiles, or comes from there if it is pulled. */
struct timed_shape {
    double cycles, ddr_bytes, bytes, operations, least_cycles;
    i64 num_ranges;
    struct timed_range ranges[MAX_RANGES];
    i64 is_packet, is_pulled, packet_bytes;
    u64 others;
};

/* Records [first, end) between barriers; `records` of all parts that are equal lie at the first of them. */
struct timed_part {
    i64 first, end, same_as, all_ended;
    double cycles;
};

/* Numbers of the chip description, by their names in it. */
struct timed_chip {
    i64 tiles, queue_depth, issue, wait, barrier, ct_startup, ct_bytes_per_cycle, dma_startup, dma_min_run_bytes, tdma_startup;
    i64 tdma_bytes_per_cycle, tdma_min_run_bytes, kc_vector_bytes_per_cycle, dte_startup, dte_hop, dte_bytes_per_cycle, mesh_columns;
    double ddr_rate, port_rate;
};

/* What timing_asked.c needs besides: what Python knows of the chip. Charges are DDR bytes for each one that is read or written. */
struct timed_model_chip {
    struct timed_chip chip;
    i64 ne_startup, ne_tile_rows, ne_tile_columns, ne_tile_depth, ne_arrays, ne_int8_speedup;
    double ddr_read_charge, ddr_write_charge;
    i64 beats[NUM_BEATS];
};

/* What happens, in cycles since its part began: as `Note` in device/timing/notes.py. `amount`: bytes of an instruction, turns that are left
 * out, bytes per cycle that transfers move from `start` on, all bytes of an engine of a tile in the part, or over one of its links, which is the
 * cause. */
enum noted { NOTED_INSTRUCTION, NOTED_WORK, NOTED_WAIT, NOTED_FULL, NOTED_BARRIER, NOTED_TURNS, NOTED_DDR, NOTED_NOC, NOTED_BYTES, NOTED_LINK };
struct timed_note {
    double issue, ready, start, end, amount;
    i32 part, record;
    i16 what, tile, engine, cause;
};

/* `num` of all notes there would be, of which the first `most` are kept. */
struct timed_notes {
    struct timed_note *rows;
    i64 most, num;
};

/* `shape` asks Python for the cost of a record with these operands where no rule here gives it; not 0 if it cannot tell. */
struct timing {
    const u64 *words;
    const struct timed_kind *kinds;
    i64 num_records, num_kinds, most_parts, kind_bytes, per_record, per_tile;
    struct timed_chip chip;
    int (*shape)(i64 record, const i64 *operands, struct timed_shape *shape);
    double *records; /* [num_records, PER_RECORD], sums over tiles */
    double *counters; /* [most_parts, tiles, PER_TILE] */
    u8 *unknown, *loaded; /* records whose trip count or branch depends on data; those that load a number that matters */
    struct timed_part *parts;
    i64 num_parts;
    const i64 *decisions; /* of a run, see device/decisions.py; NULL without one */
    i64 num_decisions;
    struct timed_notes *notes; /* NULL where nobody asks */
};

#endif
