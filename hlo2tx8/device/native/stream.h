/* A machine whose tiles are given instructions one by one, as a kernel core issues them, in place of a program: what libtx8model asks for. */
#ifndef HLO2TX8_STREAM_H
#define HLO2TX8_STREAM_H

#include "base.h"

#define STREAM_RECORDS 256 /* that a tile is given before they run */
#define STREAM_REGISTER 2  /* in which a number is that KC_load_scalar loads */

struct machine;
struct tx8_slot;
struct tx8_fault;

/* Slots that are not `is_written` may not be stored to; in a machine that is not `is_linked` no tile reaches another's SPM. NULL: there is no
 * memory. `threads` of the caller's run tiles. */
typedef struct machine *tx8_stream_create_call(const struct tx8_slot *slots, const u8 *is_written, i64 num_slots, i64 spm_bytes, int tiles, int threads,
                                               int is_linked);
/* Where a tile's next records are put, STREAM_RECORDS of them, without registers and blocks. */
typedef u64 *tx8_stream_records_call(struct machine *m, int tile);
/* The tile before its first record, with zeros in its SPM. */
typedef void tx8_stream_begin_call(struct machine *m, int tile);
/* Runs `num` records of the tile on the calling thread, number `thread`; at a barrier it reads before what other tiles may write. 0, or a
 * fault at one of them. */
typedef int tx8_stream_run_call(struct machine *m, int tile, int thread, i64 num, int is_at_barrier, struct tx8_fault *fault);
typedef i64 tx8_stream_loaded_call(const struct machine *m, int tile); /* by the last KC_load_scalar */

#endif
