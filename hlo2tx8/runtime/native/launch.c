/* The emulator's core, loaded from beside the package's own, and launches of programs in it. */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "internal.h"
#include "load.h"

#define SLICE_SECONDS 0.1
#define SINGLE_THREAD_BYTES (1 << 15) /* programs with fewer in their slots are not worth a thread */
enum outcome { DONE, TIME_OVER, FAULTED };

static _Thread_local char last_error[MESSAGE_BYTES];

API const char *tx8rt_error(void) { return last_error; }
API int tx8rt_version(void) { return TX8RT_VERSION; }

int refuse(int code, const char *format, ...) {
    va_list list;
    va_start(list, format);
    const int used = snprintf(last_error, sizeof last_error, "error E%d: ", code);
    vsnprintf(last_error + used, sizeof last_error - (size_t)used, format, list);
    va_end(list);
    return code;
}

static void *function(void *library, const char *name) { return dlsym(library, name); }

int load_core(struct core *core, const char *folder) {
    char message[MESSAGE_BYTES];
    void *const library = open_core(folder, message, sizeof message);
    if (!library) return refuse(TX8RT_NO_CORE, "%s", message);
    core->library = library;
    core->create = (struct machine * (*)(const u64 *, i64, const struct tx8_slot *, i64, i64, int, int, struct tx8_fault *)) function(library, "tx8_create");
    core->set_laws = (void (*)(struct machine *, double, double))function(library, "tx8_set_laws");
    core->run = (int (*)(struct machine *, double, struct tx8_fault *, i64))function(library, "tx8_run");
    core->destroy = (void (*)(struct machine *))function(library, "tx8_destroy");
    if (core->create && core->set_laws && core->run && core->destroy) return 0;
    dlclose(library);
    return refuse(TX8RT_NO_CORE, "the emulator's core lacks functions");
}

static int told(char *message, int code, const char *format, ...) {
    va_list list;
    va_start(list, format);
    const int used = snprintf(message, MESSAGE_BYTES, "error E%d: ", code);
    vsnprintf(message + used, MESSAGE_BYTES - (size_t)used, format, list);
    va_end(list);
    return code;
}

static int describe(const struct model *m, const struct tx8_fault *f, char *message) {
    static const char *const KINDS[] = {"", "illegal_opcode", "out_of_bounds", "bad_descriptor", "unequal_barrier", "runaway", "unpublished"};
    const char *const kind = f->kind >= 0 && f->kind < COUNT_OF(KINDS) ? KINDS[f->kind] : "unknown";
    const u64 origin = f->record >= 0 && f->record < m->num_records ? m->code[f->record * RECORD_WORDS + 2] : 0;
    const char *const from = origin < (u64)m->num_origins && m->origins[origin] ? m->origins[origin] : "";
    return told(message, TX8RT_FAULT, "fault %s: %s\n  at tile %d, record %lld%s%.200s", kind, f->detail, (int)f->tile, (long long)f->record,
                *from ? "\n  from " : "", from);
}

/* One that nobody else has. */
static int take_launcher(tx8rt_session *s, struct model *m, struct launcher **found, char *message) {
    pthread_mutex_lock(&m->mutex);
    struct launcher *l = m->ready;
    if (l) m->ready = l->next;
    pthread_mutex_unlock(&m->mutex);
    *found = l;
    if (l) return 0;
    l = calloc(1, sizeof *l);
    if (l) l->slots = calloc((size_t)m->num_slots + 1, sizeof *l->slots);
    if (l && l->slots) l->scratch = aligned_alloc(LINE_BYTES, (size_t)m->scratch_bytes + LINE_BYTES);
    if (!l || !l->scratch) {
        if (l) free(l->slots), free(l);
        return told(message, TX8RT_MEMORY, "no memory for %lld bytes between the program's kernels", (long long)m->scratch_bytes);
    }
    u8 *scratch = l->scratch;
    i64 bytes = 0;
    for (i64 n = 0; n < m->num_slots; n++) {
        l->slots[n].size = m->sizes[n], bytes += m->sizes[n];
        if (m->kinds[n] != SLOT_SCRATCH) continue;
        l->slots[n].data = scratch, scratch += (m->sizes[n] + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    }
    for (int i = 0; i < m->num_weights; i++) {
        const struct port *const p = &m->ports[m->num_inputs + m->num_outputs + i];
        l->slots[p->slot].data = (u8 *)(uintptr_t)p->argument.data;
    }
    struct tx8_fault fault;
    const int wanted = s->options.threads ? s->options.threads : (int)m->threads;
    const int threads = wanted ? wanted : bytes < SINGLE_THREAD_BYTES ? 1 : processors();
    l->machine = s->core.create(m->code, m->num_records, l->slots, m->num_slots, m->spm_bytes, (int)m->tiles, threads, &fault);
    if (!l->machine) {
        free(l->slots), free(l->scratch), free(l);
        return fault.kind ? describe(m, &fault, message) : told(message, TX8RT_MEMORY, "no memory for the scratchpads");
    }
    s->core.set_laws(l->machine, m->satrelu_bound, m->leakyrelu_slope);
    *found = l;
    return 0;
}

static int check_required(const struct model *m, u8 *const *data, char *message) {
    for (int i = 0; i < m->num_inputs; i++) {
        const struct port *const p = &m->ports[i];
        for (i64 e = 0; p->required && e < p->num_elements; e++)
            if (memcmp(data[i] + e * p->element_bytes, &p->required[e], (size_t)p->element_bytes))
                return told(message, TX8RT_INPUT, "element %lld of input %d should be %lld, which shapes depend on", (long long)e, i, (long long)p->required[e]);
    }
    return 0;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int launch(tx8rt_session *s, struct model *m, u8 *const *data, char *message) {
    struct launcher *l;
    int code = check_required(m, data, message);
    if (code || (code = take_launcher(s, m, &l, message))) return code;
    for (int i = 0; i < m->num_inputs + m->num_outputs; i++) {
        const struct port *const p = &m->ports[i];
        l->slots[p->slot].data = data[i];
        /* Nobody vouches for a program from a file: what it does not store it finds as zeros. */
        if (i >= m->num_inputs && p->argument.alias_offset < 0) memset(data[i], 0, p->argument.size_bytes);
    }
    memset(l->scratch, 0, (size_t)m->scratch_bytes);
    struct tx8_fault fault;
    const double limit = s->options.timeout, end = now() + limit;
    int outcome;
    do outcome = s->core.run(l->machine, SLICE_SECONDS, &fault, s->options.max_steps);
    while (outcome == TIME_OVER && !(limit > 0 && now() >= end));
    if (outcome == DONE) {
        pthread_mutex_lock(&m->mutex);
        l->next = m->ready, m->ready = l;
        pthread_mutex_unlock(&m->mutex);
        return 0;
    }
    s->core.destroy(l->machine);
    free(l->slots), free(l->scratch), free(l);
    if (outcome == FAULTED) return describe(m, &fault, message);
    if (outcome == TIME_OVER) return told(message, TX8RT_FAULT, "still running after %g s", limit);
    return told(message, TX8RT_MEMORY, "no memory for the run");
}
