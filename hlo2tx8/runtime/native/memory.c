/* Memory of requests: blocks of an arena, or of the caller's functions, that go back when nobody refers to them any more. */
#include <stdlib.h>

#include "internal.h"

#define CLASSES_PER_DOUBLING 8 /* sizes of blocks between a power of two and the next */

static size_t room_of(size_t size) {
    size_t whole = 1024;
    while (whole < size) whole *= 2;
    const size_t grain = whole / (2 * CLASSES_PER_DOUBLING);
    return (size + grain - 1) / grain * grain;
}

static void drop(tx8rt_session *s, struct block *block) {
    s->statistics.kept_bytes -= (i64)block->room;
    free(block->memory), free(block);
}

/* A kept block of that room, taken out of the list. */
static struct block *take_kept(tx8rt_session *s, size_t room) {
    for (struct block **at = &s->kept; *at; at = &(*at)->next)
        if ((*at)->room == room) {
            struct block *const found = *at;
            *at = found->next;
            return found;
        }
    return NULL;
}

static int new_in_arena(tx8rt_session *s, size_t size, struct block **found) {
    const size_t room = room_of(size + DATA_ALIGNMENT);
    tx8rt_statistics *const st = &s->statistics;
    struct block *block = take_kept(s, room);
    if (block) st->kept_bytes -= (i64)room, st->num_reused++;
    else {
        while (st->limit_bytes && s->kept && st->in_use_bytes + st->kept_bytes + (i64)room > st->limit_bytes) {
            struct block *const next = s->kept->next;
            drop(s, s->kept);
            s->kept = next;
        }
        if (st->limit_bytes && st->in_use_bytes + (i64)room > st->limit_bytes)
            return refuse(TX8RT_MEMORY, "%zu bytes do not fit an arena of %lld with %lld in use", size, (long long)st->limit_bytes, (long long)st->in_use_bytes);
        block = calloc(1, sizeof *block);
        if (block && !(block->memory = malloc(room))) free(block), block = NULL;
        if (!block) return refuse(TX8RT_MEMORY, "no memory for %zu bytes", size);
        block->room = room;
        block->data = block->memory + (-(uintptr_t)block->memory & (DATA_ALIGNMENT - 1));
    }
    st->num_allocated++;
    st->in_use_bytes += (i64)room;
    if (st->in_use_bytes > st->peak_bytes) st->peak_bytes = st->in_use_bytes;
    *found = block;
    return 0;
}

int new_block(tx8rt_session *s, size_t size, struct block **found) {
    struct block *block = NULL;
    int code = 0;
    if (s->options.allocate) {
        block = calloc(1, sizeof *block);
        if (block) block->data = s->options.allocate(s->options.user, size ? size : 1);
        if (!block || !block->data || (uintptr_t)block->data & 15) {
            if (block && block->data) s->options.free(s->options.user, block->data, size ? size : 1);
            free(block);
            return refuse(TX8RT_MEMORY, "the session's own allocator has no %zu bytes aligned to 16", size);
        }
    } else {
        pthread_mutex_lock(&s->mutex);
        code = new_in_arena(s, size, &block);
        pthread_mutex_unlock(&s->mutex);
    }
    if (code) return code;
    block->session = s, block->size = size, block->next = NULL;
    atomic_store(&block->refs, 1);
    *found = block;
    return 0;
}

void release_block(struct block *block) {
    if (!block || atomic_fetch_sub(&block->refs, 1) != 1) return;
    tx8rt_session *const s = block->session;
    if (s->options.allocate) {
        s->options.free(s->options.user, block->data, block->size ? block->size : 1);
        free(block);
        return;
    }
    pthread_mutex_lock(&s->mutex);
    block->next = s->kept, s->kept = block;
    s->statistics.in_use_bytes -= (i64)block->room, s->statistics.kept_bytes += (i64)block->room;
    pthread_mutex_unlock(&s->mutex);
}

void free_arena(tx8rt_session *s) {
    for (struct block *block = s->kept, *next; block; block = next) {
        next = block->next;
        drop(s, block);
    }
}
