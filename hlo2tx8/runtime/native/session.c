/* Sessions: models by number, and what all their requests have. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

API int tx8rt_session_create(const tx8rt_options *options, tx8rt_session **session) {
    const tx8rt_options given = options ? *options : (tx8rt_options){0};
    if (given.threads < 0 || given.threads > MAX_THREADS || !(given.timeout >= 0) || given.max_steps < 0 || !given.allocate != !given.free ||
        given.limit_bytes > INT64_MAX)
        return refuse(TX8RT_INPUT, "options that are negative or too large, or one of allocate and free without the other");
    tx8rt_session *const s = calloc(1, sizeof *s);
    if (!s) return refuse(TX8RT_MEMORY, "no memory for a session");
    int code = load_core(&s->core, given.cores);
    if (!code) code = tx8rt_queue_create(TX8RT_SINGLE_STREAM, &s->own_queue);
    if (code) {
        free(s);
        return code;
    }
    pthread_mutex_init(&s->mutex, NULL);
    s->options = given, s->options.cores = NULL, s->statistics.limit_bytes = (i64)given.limit_bytes;
    *session = s;
    return 0;
}

API int tx8rt_session_destroy(tx8rt_session *s) {
    if (!s) return 0;
    if (atomic_load(&s->num_users)) return refuse(TX8RT_ORDER, "the session is destroyed with requests, or runs under way");
    const int code = tx8rt_queue_destroy(s->own_queue);
    if (code) return code;
    for (int i = 0; i < s->num_models; i++) free_model(s->models[i], s);
    free_arena(s);
    pthread_mutex_destroy(&s->mutex); /* the core stays loaded: its threads end a little later */
    free(s->models), free(s);
    return 0;
}

static int find(tx8rt_session *s, const char *name) {
    for (int i = 0; i < s->num_models; i++)
        if (!strcmp(s->models[i]->name, name)) return i;
    return -1;
}

static int load(tx8rt_session *s, struct bytes archive, const char *what, const char *name, int *model) {
    struct model *m;
    int code = read_model(archive, what, &m);
    if (code) return code;
    if (name) {
        free(m->name);
        m->name = strdup(name);
    }
    pthread_mutex_lock(&s->mutex);
    struct model **const more = realloc(s->models, ((size_t)s->num_models + 1) * sizeof *more);
    if (more) s->models = more;
    if (!more || !m->name) code = refuse(TX8RT_MEMORY, "no memory for a model");
    else if (find(s, m->name) >= 0) code = refuse(TX8RT_INPUT, "the session has a model %s already", m->name);
    else s->models[*model = s->num_models++] = m;
    pthread_mutex_unlock(&s->mutex);
    if (code) free_model(m, s);
    return code;
}

API int tx8rt_session_load_bytes(tx8rt_session *s, const void *bytes, size_t size, const char *name, int *model) {
    return load(s, (struct bytes){(u8 *)(uintptr_t)bytes, size}, "the program", name, model);
}

API int tx8rt_session_load(tx8rt_session *s, const char *path, const char *name, int *model) {
    FILE *const file = fopen(path, "rb");
    if (!file) return refuse(TX8RT_CONTAINER, "%s: %s", path, strerror(errno));
    struct bytes archive = {0};
    long size = fseek(file, 0, SEEK_END) ? -1 : ftell(file);
    if (size > 0) archive.data = malloc((size_t)size);
    if (size < 0 || fseek(file, 0, SEEK_SET) || !archive.data || fread(archive.data, 1, (size_t)size, file) != (size_t)size) size = -1;
    fclose(file);
    archive.size = size < 0 ? 0 : (size_t)size;
    const int code = size < 0 ? refuse(TX8RT_CONTAINER, "%s cannot be read, or is empty", path) : load(s, archive, path, name, model);
    free(archive.data);
    return code;
}

static struct model *model_of(tx8rt_session *s, int model) {
    pthread_mutex_lock(&s->mutex);
    struct model *const found = model >= 0 && model < s->num_models ? s->models[model] : NULL;
    pthread_mutex_unlock(&s->mutex);
    return found;
}

API int tx8rt_session_model(tx8rt_session *s, const char *name) {
    pthread_mutex_lock(&s->mutex);
    const int found = find(s, name);
    pthread_mutex_unlock(&s->mutex);
    return found;
}

API const char *tx8rt_session_name(tx8rt_session *s, int model) {
    const struct model *const m = model_of(s, model);
    return m ? m->name : NULL;
}

static int first_of(const struct model *m, enum tx8rt_kind kind) {
    return kind == TX8RT_OUTPUTS ? m->num_inputs : kind == TX8RT_WEIGHTS ? m->num_inputs + m->num_outputs : 0;
}

API int tx8rt_session_count(tx8rt_session *s, int model, enum tx8rt_kind kind) {
    const struct model *const m = model_of(s, model);
    if (!m) return -1;
    switch (kind) {
    case TX8RT_INPUTS: return m->num_inputs;
    case TX8RT_OUTPUTS: return m->num_outputs;
    case TX8RT_WEIGHTS: return m->num_weights;
    case TX8RT_ARGUMENTS: return m->num_inputs + m->num_outputs;
    }
    return -1;
}

API int tx8rt_session_argument(tx8rt_session *s, int model, enum tx8rt_kind kind, int number, tx8rt_argument *argument) {
    const int count = tx8rt_session_count(s, model, kind);
    if (number < 0 || number >= count) return refuse(TX8RT_INPUT, "the session has no argument %d of kind %d of model %d", number, (int)kind, model);
    const struct model *const m = model_of(s, model);
    *argument = m->ports[first_of(m, kind) + number].argument;
    return 0;
}

API int tx8rt_session_statistics(tx8rt_session *s, tx8rt_statistics *statistics) {
    pthread_mutex_lock(&s->mutex);
    *statistics = s->statistics;
    pthread_mutex_unlock(&s->mutex);
    return 0;
}
