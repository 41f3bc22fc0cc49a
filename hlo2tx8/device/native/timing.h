/* The machine of the timing model: what `device/timing/machine.py` defines, each tile by itself. */
#ifndef HLO2TX8_TIMING_H
#define HLO2TX8_TIMING_H

#include "base.h"

#define MAX_TIMED_TILES 64
#define TIMED_REGISTERS 64
#define MAX_FRAMES 40
#define QUEUED_ENGINES 6
#define MAX_QUEUE 8
#define MAX_DEPENDENTS (QUEUED_ENGINES * MAX_QUEUE)
#define MAX_KEY 40
#define MAX_RANGES 8

/* As in device/timing/steps.py and bundle.py; tx8_time refuses other layouts. */
enum timed_op { TIMED_ISSUE = 1, TIMED_WORK, TIMED_SCALAR, TIMED_LOOP, TIMED_END, TIMED_IF, TIMED_EXIT, TIMED_JOIN, TIMED_WAIT, TIMED_BARRIER, TIMED_HALT };
enum timed_fold { FOLD_UNKNOWN, FOLD_AFFINE, FOLD_FLOOR_DIV, FOLD_MOD, FOLD_MIN, FOLD_MAX, FOLD_MUL, FOLD_LESS };
enum of_record { RECORD_INSTRUCTIONS, RECORD_BUSY, RECORD_ELAPSED, RECORD_DDR_BYTES, RECORD_BYTES, RECORD_OPERATIONS, RECORD_LEAST, PER_RECORD };
enum of_tile {
    NUM_CAUSES = 7, ENGINE_BUSY = NUM_CAUSES, ENGINE_INSTRUCTIONS, PER_ENGINE, KC_BASE = PER_ENGINE * NUM_CAUSES, FULL = KC_BASE,
    WAITING = FULL + NUM_CAUSES, BARRIER_WAIT = WAITING + NUM_CAUSES, BARRIER, ISSUE, PER_TILE
};

struct timed_step {
    i32 op, record, before, rd, cycles, fold, target, engine, decides_counts, rotation, varies;
    i32 num_inputs, first_input, num_carried, first_carried, num_counts, first_count;
};

/* SPM bytes from `start` to `end`. */
struct timed_range {
    i64 start, end, is_write;
};

struct timed_shape {
    double cycles, ddr_bytes, bytes, operations, least_cycles;
    i64 num_ranges;
    struct timed_range ranges[MAX_RANGES];
};

struct timed_value {
    i64 value;
    i32 is_known, padding;
};

/* What a run is given and gives. `shape` asks Python for the cost of an instruction, and is not 0 if it cannot tell. */
struct timing {
    const struct timed_step *steps;
    const i32 *indices; /* of all steps: inputs, carried registers, registers that decide counts, strides and branches */
    const i64 *constants;
    i64 num_steps, num_constants, num_records, num_tiles, queue_depth, issue_cycles, wait_cycles, barrier_cycles, per_record, per_tile;
    double ddr_rate, port_rate;
    int (*shape)(int step, const struct timed_value *key, struct timed_shape *shape);
    double *records, *counters;
    u8 *unknown;
    double cycles;
    i64 all_ended;
};

#endif
