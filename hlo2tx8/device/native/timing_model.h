/* State of the timing model's machine, shared by the files timing*.c. */
#pragma once

#include "timing.h"

#define SAME_CYCLES 1e-6
#define MAX_FRAMES 512 /* blocks inside each other, as the encoding has it */
#define QUEUED_ENGINES 6
#define MAX_QUEUE 8
#define MAX_FLOWING (2 * MAX_QUEUE * MAX_TIMED_TILES)
#define MAX_DEPENDENTS (QUEUED_ENGINES * MAX_QUEUE)

struct timed_value {
    i64 value;
    i32 is_known, padding;
};

struct timed_step {
    i32 op, record, before, rd, cycles, fold, target, engine, decides_counts, rotation, varies;
    i32 num_inputs, first_input, num_carried, first_carried, num_counts, first_count;
};

/* Records [first, end) as steps; `indices` are of registers, or of constants behind them. */
struct stretch {
    const struct timing *t;
    const i32 *kind_of, *partners; /* of every record of the program */
    i64 first, end;
    struct timed_step *steps;
    i32 *indices;
    i64 *constants;
    int num_steps, num_indices, num_constants;
    u64 live_in; /* registers that matter and are not set first */
};

/* Rows of numbers that a record of a tile loads; of the first one `used` are gone, of all `taken`. */
struct cursor {
    const i64 *row;
    i64 num_rows, used, taken;
};

struct shape_entry {
    struct shape_entry *next;
    struct timed_shape shape;
    int num;
    struct timed_value key[];
};

#define LINKS_OF_TILE 4 /* to its neighbours: next and last in its row, next and last in its column */
#define LINKS (LINKS_OF_TILE * MAX_TIMED_TILES)
#define LINK_WORDS (LINKS / 64)

enum flow { FLOWS_NOT, FLOWS_LATER, FLOWS };

struct issued {
    const struct timed_shape *shape;
    int step, engine, cause, missing, has_start, has_end, flow, num_dependents;
    u64 serial;
    double issue, ready, free, start, end, flows_at, rest;
    u64 links[LINK_WORDS]; /* a bit each that a packet takes */
    uintptr_t dependents[MAX_DEPENDENTS]; /* the address; bit 0: it is the next one of the queue */
};

struct queue {
    struct issued slots[MAX_QUEUE];
    int first, num;
};

enum { FLUID_DDR, FLUID_NOC, NUM_FLUIDS };

/* Transfers of all tiles, in no order, followed up to `now`. */
struct fluid {
    struct issued **flowing, **coming;
    int num_flowing, num_coming;
    double now, moved; /* bytes since the part began */
};

struct mark {
    double now;
    i64 *structure;
    double *ahead;
    int num_structure, num_ahead;
};

#define NUM_CLOCKS (1 + NUM_FLUIDS + QUEUED_ENGINES)

struct probe {
    i64 period, turn;
    int is_settled, is_own; /* of a tile by itself, beside the one that leads */
    struct mark must_equal;
    double cycles, clocks[NUM_CLOCKS], moved[NUM_FLUIDS], bytes[MAX_TIMED_TILES][QUEUED_ENGINES], links[MAX_TIMED_TILES][LINKS_OF_TILE];
    int depth[MAX_TIMED_TILES];
    i64 turns[MAX_TIMED_TILES][MAX_FRAMES];
    double *sums; /* records, then counters */
    i64 *taken; /* of all cursors of the stretch */
    u64 last_serial;
};

struct frame {
    int loop;
    struct timed_value lo;
    i64 step, total, turn;
    struct mark *marks;
    int num_marks;
    struct probe *probe;
    i64 quiet_turn; /* since which nothing was issued anywhere: `quiet_serial` is what it was */
    u64 quiet_serial;
};

/* What a tile does next where nobody has the program: cycles of scalars before it, then an instruction, a wait for a mask of engines or a
 * barrier. */
struct timed_event {
    u8 op, engine;
    i32 before;
    union {
        const struct timed_shape *shape;
        i64 engines;
    } of;
};

struct timed_events {
    struct timed_event *rows;
    i64 num, room;
};

struct timed_tile {
    int number, at, depth, is_at_barrier, is_done;
    double now;
    struct issued *blocked;
    double bytes[QUEUED_ENGINES]; /* from and to DDR, and to other tiles */
    double links[LINKS_OF_TILE]; /* bytes over the links to its neighbours */
    struct timed_value registers[TIMED_REGISTERS];
    struct frame frames[MAX_FRAMES];
    struct queue queues[QUEUED_ENGINES];
};

struct model {
    const struct timing *t;
    const struct stretch *s;
    const struct timed_events *events; /* of each tile, in place of steps; NULL if there is a program */
    struct cursor *cursors; /* [tiles, records of the program]; NULL if there are no decisions */
    double *records, *counters; /* of the stretch */
    u8 *unknown;
    struct timed_tile *tiles;
    struct shape_entry **shapes;
    struct fluid fluids[NUM_FLUIDS];
    int failed, part;
    u64 serial;
};

static inline struct issued *at_queue(struct queue *q, int k) { return &q->slots[(q->first + k) % MAX_QUEUE]; }
static inline double *counters_of(const struct model *m, const struct timed_tile *b) {
    return m->counters + (size_t)b->number * PER_TILE;
}
static inline double *record_of(const struct model *m, int step) {
    return m->records + (m->events ? 0 : (size_t)m->s->steps[step].record * PER_RECORD); /* events are counted together */
}
static inline void tell(const struct model *m, struct timed_note n) {
    struct timed_notes *const notes = m->t->notes;
    n.part = m->part;
    if (notes && notes->num++ < notes->most) notes->rows[notes->num - 1] = n;
}
static inline i32 noted_record(const struct model *m, int step) { return m->events ? 0 : m->s->steps[step].record; }
static inline double larger(double a, double b) { return a > b ? a : b; }
static inline struct timed_value input(const struct stretch *s, const struct timed_value *registers, i32 index) {
    return index < TIMED_REGISTERS ? registers[index] : (struct timed_value){s->constants[index - TIMED_REGISTERS], 1, 0};
}

static inline const struct timed_kind *kind_at(const struct stretch *s, i64 record) { return s->t->kinds + s->kind_of[record]; }
static inline const u64 *words_at(const struct stretch *s, i64 record) { return s->t->words + (size_t)record * RECORD_WORDS; }
static inline i64 operand_at(const struct stretch *s, i64 record, int field) { return (i64)words_at(s, record)[HEADER_WORDS + field]; }
static inline int is_register(const struct stretch *s, i64 record, int field) { return words_at(s, record)[1] >> field & 1; }

/* timing.c: the machine. The number of parts that happen goes to t, not 0 if that cannot be told. */
int time_stretches(struct timing *t, const struct stretch *stretches);
void begin_model(struct model *m, const struct timing *t);
void end_model(struct model *m);
void follow_tiles(struct model *m, struct timed_part *part); /* of a stretch, or of events, from cycle 0 on */
int wait_engines(struct model *m, struct timed_tile *b, i64 engines, int before);
void work(struct model *m, struct timed_tile *b, const struct timed_shape *shape, int before);

/* timing_asked.c: of an instruction with such a first word, also where timing_costs.c has no rule; not 0 if nobody can tell. */
int cost_of_head(const struct timed_model_chip *c, const struct timed_kind *kind, u64 head, const i64 *o, struct timed_shape *shape);

/* timing_stream.c: until it has to wait for an end that is not known, is at a barrier, or is done. */
void follow_events(struct model *m, struct timed_tile *b);

/* timing_steps.c: what is followed of records. */
void make_steps(struct stretch *s, i64 first, i64 end);
void drop_steps(struct stretch *s);

/* timing_needed.c: registers that matter. */
struct needed {
    u8 *scalars;  /* of each record: a scalar whose value matters? */
    u64 *carried; /* of each loop: registers that matter in its next turn and that its body sets */
    u64 live_in;
};
void find_needed(const struct stretch *s, u8 flag, struct needed *found);

/* timing_costs.c: what instructions cost. `sizes` are bytes of the operands in SPM where the kind has no rule for them, else NULL. */
int follow_rules(const struct timed_chip *c, const struct timed_kind *kind, const i64 *o, const i64 *sizes, struct timed_shape *shape);
int cost_of(const struct stretch *s, i64 record, const struct timed_value *key, struct timed_shape *shape);

/* timing_engines.c: queues and engines. */
void spend(struct model *m, struct timed_tile *b, int step, double cycles, int before);
void wait_until(struct model *m, struct timed_tile *b, int step, int why, const struct issued *i);
int issue(struct model *m, struct timed_tile *b, int number, int engine, int before, const struct timed_shape *shape);
void ended(struct model *m, struct timed_tile *b, struct issued *i, double end);

/* timing_fluid.c: what transfers share. */
void begin_transfer(struct model *m, const struct timed_tile *b, struct issued *i);
double rate_of(const struct model *m, const struct issued *i);
double next_event(const struct model *m, int fluid);
void step_fluid(struct model *m, int fluid, double until);
static inline int fluid_of(const struct issued *i) { return i->shape->is_packet ? FLUID_NOC : FLUID_DDR; }

/* timing_turns.c: scalars of the kernel core. */
struct timed_value fold(const struct stretch *x, const struct timed_value *r, const struct timed_step *s);
static inline int is_loaded(const struct timed_step *s) { return s->op == TIMED_SCALAR && s->fold == FOLD_UNKNOWN; }
struct timed_value turns_of(struct timed_value lo, struct timed_value hi, struct timed_value by);
struct timed_value counter_of(struct timed_value lo, i64 turn, i64 step);
i64 equal_turns(const struct model *m, const struct timed_tile *b, const struct frame *f, i64 first, i64 turns, i64 most);

/* timing_replay.c: what a run decided. */
struct cursor *make_cursors(const struct timing *t);
struct cursor *cursor_of(const struct model *m, const struct timed_tile *b, const struct timed_step *s);
struct timed_value take(struct cursor *c);
struct timed_value taken_last(const struct cursor *c);
i64 repeats(const struct cursor *c, i64 count);

/* timing_steady.c: loops in a steady state. */
void end_turn(struct model *m, struct timed_tile *b, struct frame *f);
int is_quiet(const struct model *m, struct frame *f);
void end_own_turn(struct model *m, struct timed_tile *b, struct frame *f);
void drop_frame(struct frame *f);
