/* Loads put off are read when they are needed; the host is asked for them before, while something else computes. What lies behind a
 * load in DDR is likely loaded next, so that is asked for too. Asking changes no result and never faults. */
#include "core.h"

#define MOST_PACE (2 * WHOLE_PACE)

void follow_load(struct tile *t, const u8 *src, i64 bytes) {
    for (int i = 0; i < NUM_STREAMS; i++) {
        struct stream *const s = t->streams + i;
        if (s->end != src) continue;
        const i64 work = t->work - s->work, pace = work > 0 ? WHOLE_PACE * bytes / work + WHOLE_PACE / 16 : MOST_PACE;
        t->pace -= s->pace;
        s->end = src + bytes, s->bytes = bytes, s->work = t->work, s->pace = pace < MOST_PACE ? pace : MOST_PACE;
        s->was_asked = s->warm > src;
        s->warm = s->was_asked ? s->warm : src;
        t->pace += s->pace;
        return;
    }
    struct stream *const s = t->streams + t->next_stream++ % NUM_STREAMS;
    t->pace += WHOLE_PACE - s->pace;
    *s = (struct stream){.warm = src, .end = src + bytes, .bytes = bytes, .work = t->work, .pace = WHOLE_PACE};
}

int was_asked(const struct tile *t, const u8 *src) {
    for (int i = 0; i < NUM_STREAMS; i++)
        if (t->streams[i].end - t->streams[i].bytes <= src && src < t->streams[i].end) return t->streams[i].was_asked;
    return 0;
}

void note_read(struct tile *t, const u8 *src, i64 bytes) {
    for (int i = 0; i < NUM_STREAMS; i++) {
        struct stream *const s = t->streams + i;
        if (s->warm < src + bytes && src + bytes <= s->end && s->end - src <= 2 * s->bytes) s->warm = src + bytes;
    }
}

/* What has been loaded but not read first, then what follows: `behind` is 0 or 1. */
void ask_ahead(struct tile *t, i64 bytes) {
    for (i64 behind = 0; behind < 2; behind++) {
        for (int i = 0; i < NUM_STREAMS; i++) {
            struct stream *const s = t->streams + i;
            const i64 cold = s->end - s->warm + behind * s->bytes, count = cold < bytes ? cold : bytes;
            if (count <= 0) continue;
            for (const u8 *line = s->warm; line < s->warm + count; line += LINE_BYTES) __builtin_prefetch(line);
            s->warm += count;
            return;
        }
    }
}
