/* What the entry points, the threads and the tile at work share. */
#ifndef HLO2TX8_MACHINE_H
#define HLO2TX8_MACHINE_H

#include "core.h"

double seconds_now(void);

/* core.c */
struct machine *tx8_create(const u64 *code, i64 num_records, const struct tx8_slot *slots, i64 num_slots, i64 spm_bytes, int tiles, int threads,
                           struct tx8_fault *fault);
void tx8_destroy(struct machine *m);

void run_tile(struct machine *m, int number, int thread);
void write_place(const struct tile *t, int number, struct tx8_fault *place); /* where it is, for a fault or whoever asks */

/* Faults at the end of a loop at `at`, whose turn is one too many; num_records. */
i64 stop_turning(const struct machine *m, struct tile *t, i64 at);

/* The record after the end of a loop at `at`: its first one, with the next counter, or what is behind; num_records after a fault. */
i64 end_loop(const struct machine *m, struct tile *t, i64 at);

/* Runs records from `at` on as long as they are of scalars.c, at most *polls of them, which it counts down; the record it ends before. */
i64 run_scalars(const struct machine *m, struct tile *t, i64 at, int *polls);

void start_workers(struct machine *m);
int run_phase(struct machine *m); /* all tiles that can, until none can; 1 if all are at one barrier and go on */

#endif
