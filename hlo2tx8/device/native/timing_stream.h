/* The modelled time of instructions that tiles are given one by one: what libtx8model asks for. */
#ifndef HLO2TX8_TIMING_STREAM_H
#define HLO2TX8_TIMING_STREAM_H

#include "timing.h"

struct timed_stream;

/* `kinds` are rows of classes by opcode, NUM_OPCODES of them, for any formats: a size of -1 is that of an element, -2 of a source's, and costs
 * are numbers of beats. NULL: there is no memory. */
typedef struct timed_stream *tx8_time_create_call(const struct timed_model_chip *chip, const struct timed_kind *kinds);
typedef void tx8_time_destroy_call(struct timed_stream *s);
typedef void tx8_time_begin_call(struct timed_stream *s); /* at cycle 0, nothing has been issued */
/* The tile's next instruction, after `before` cycles of scalars; cycles that it takes by itself, or -1 if nobody can tell. Tiles may be told
 * of on threads of their own. */
typedef double tx8_time_issue_call(struct timed_stream *s, int tile, const u64 *record, i64 before);
/* All tiles are at a barrier, or have ended: cycles since the beginning, as far as they are known now; -1 if nobody can tell. */
typedef double tx8_time_follow_call(struct timed_stream *s, int is_end);

#endif
