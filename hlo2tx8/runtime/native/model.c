/* A program from its file: the manifest's words for slots and arguments, the code, the constants. Nothing of it is believed unchecked. */
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

#define MOST_MANIFEST_BYTES ((size_t)64 << 20)
#define MOST_BYTES ((i64)1 << 47)
#define NEED(what, ...)                                     \
    do {                                                    \
        if (!(what)) return refuse(TX8RT_CONTAINER, __VA_ARGS__); \
    } while (0)

static const struct {
    const char *name, *code; /* of numpy, and of safetensors */
    i64 bytes;
} DTYPES[] = {{"bool", "BOOL", 1}, {"int8", "I8", 1}, {"int16", "I16", 2}, {"int32", "I32", 4}, {"int64", "I64", 8}, {"uint8", "U8", 1},
              {"uint16", "U16", 2}, {"uint32", "U32", 4}, {"uint64", "U64", 8}, {"float16", "F16", 2}, {"bfloat16", "BF16", 2},
              {"float32", "F32", 4}, {"float64", "F64", 8}, {"complex64", "", 8}, {"complex128", "", 16}, {"int2", "U8", 1}, {"uint2", "U8", 1},
              {"int4", "U8", 1}, {"uint4", "U8", 1}, {"float4_e2m1fn", "U8", 1}, {"float6_e2m3fn", "U8", 1}, {"float6_e3m2fn", "U8", 1},
              {"float8_e3m4", "U8", 1}, {"float8_e4m3", "U8", 1}, {"float8_e4m3b11fnuz", "U8", 1}, {"float8_e4m3fn", "U8", 1},
              {"float8_e4m3fnuz", "U8", 1}, {"float8_e5m2", "U8", 1}, {"float8_e5m2fnuz", "U8", 1}, {"float8_e8m0fnu", "U8", 1}};

static const char *const KINDS[NUM_SLOT_KINDS] = {"input", "output", "constant", "scratch"};

/* Is it this text? */
static int is_text(const struct json *j, int value, const char *text) {
    const struct value *const v = &j->values[value < 0 ? 0 : value];
    return value >= 0 && v->kind == JSON_STRING && v->size == strlen(text) && !memcmp(v->text, text, v->size);
}

/* Shape, dtype, name and size of a port, or of a slot. */
static int read_tensor(const struct json *j, int value, struct port *p, const char *kind, int number) {
    const int shape = member_of(j, value, "shape"), dtype = member_of(j, value, "dtype");
    int known = -1;
    for (int i = 0; i < COUNT_OF(DTYPES); i++)
        if (is_text(j, dtype, DTYPES[i].name)) known = i;
    NEED(shape >= 0 && j->values[shape].kind == JSON_LIST && j->values[shape].count <= MOST_RANK, "%s %d has no shape", kind, number);
    if (known < 0) return refuse(TX8RT_UNSUPPORTED, "%s %d has a dtype that this library does not know", kind, number);
    const int rank = j->values[shape].count;
    p->argument = (tx8rt_argument){.dtype = DTYPES[known].name, .rank = rank, .alias_offset = -1};
    p->element_bytes = DTYPES[known].bytes, p->num_elements = 1;
    p->shape = calloc((size_t)rank + 1, sizeof *p->shape);
    p->argument.shape = p->shape, p->argument.name = string_of(j, member_of(j, value, "name"));
    if (!p->shape || !p->argument.name) return refuse(TX8RT_CONTAINER, "%s %d has no name", kind, number);
    for (int d = 0; d < rank; d++) {
        NEED(!integer_of(j, item_of(j, shape, d), 0, MOST_BYTES, &p->shape[d]), "%s %d has no such shape", kind, number);
        NEED(!p->shape[d] || p->num_elements <= MOST_BYTES / p->element_bytes / p->shape[d], "%s %d is too large", kind, number);
        p->num_elements *= p->shape[d];
    }
    p->argument.size_bytes = (size_t)(p->num_elements * p->element_bytes);
    if (!*p->argument.name) {
        char *const name = malloc(40);
        if (!name) return refuse(TX8RT_MEMORY, "no memory for names");
        snprintf(name, 40, "%s%d", kind, number);
        free((char *)p->argument.name);
        p->argument.name = name;
    }
    return 0;
}

/* The layout of an argument, and what its elements must be. */
static int read_port(const struct json *j, int value, struct port *p, const char *kind, int number) {
    int code = read_tensor(j, value, p, kind, number);
    if (code) return code;
    const int layout = member_of(j, value, "layout"), required = member_of(j, value, "value"), rank = p->argument.rank;
    NEED(layout >= 0 && j->values[layout].kind == JSON_LIST, "%s %d has no layout", kind, number);
    if (j->values[layout].count) {
        u64 seen = 0;
        NEED(j->values[layout].count == rank && (p->layout = calloc((size_t)rank, sizeof(int))), "%s %d has no such layout", kind, number);
        for (int d = 0; d < rank; d++) {
            i64 dim;
            NEED(!integer_of(j, item_of(j, layout, d), 0, rank - 1, &dim) && !(seen >> dim & 1), "%s %d has no such layout", kind, number);
            seen |= (u64)1 << dim, p->layout[d] = (int)dim;
        }
        p->argument.space = TX8RT_HOST;
    }
    if (required >= 0 && j->values[required].kind == JSON_LIST) {
        const char *const dtype = p->argument.dtype;
        if (strncmp(dtype, "int", 3) && strncmp(dtype, "uint", 4))
            return refuse(TX8RT_UNSUPPORTED, "shapes depend on %s %d, a %s", kind, number, dtype);
        NEED(j->values[required].count == p->num_elements && (p->required = calloc((size_t)p->num_elements + 1, sizeof(i64))), "%s %d has no such value", kind, number);
        for (int i = 0; i < p->num_elements; i++)
            NEED(!integer_of(j, item_of(j, required, i), INT64_MIN, INT64_MAX, &p->required[i]), "%s %d has no such value", kind, number);
    }
    return 0;
}

static int read_ports(struct model *m, const struct json *j) {
    const int lists[2] = {member_of(j, 0, "inputs"), member_of(j, 0, "outputs")};
    struct port *p = m->ports;
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < (side ? m->num_outputs : m->num_inputs); i++, p++) {
            const int code = read_port(j, item_of(j, lists[side], i), p, KINDS[side], i);
            if (code) return code;
            p->argument.kind = side ? TX8RT_OUTPUTS : TX8RT_INPUTS, p->argument.offset = (int)(p - m->ports);
        }
    return 0;
}

static int read_slots(struct model *m, const struct json *j, int slots) {
    int counts[NUM_SLOT_KINDS] = {0};
    for (int n = 0, at = slots + 1; n < m->num_slots; n++, at = j->values[at].next) {
        const int kind = member_of(j, at, "kind");
        i64 index, taken;
        while (m->kinds[n] < NUM_SLOT_KINDS && !is_text(j, kind, KINDS[m->kinds[n]])) m->kinds[n]++;
        NEED(m->kinds[n] < NUM_SLOT_KINDS, "slot %d is of no kind", n);
        NEED(!integer_of(j, member_of(j, at, "size_bytes"), 0, MOST_BYTES, &m->sizes[n]), "slot %d has no size", n);
        const int number = counts[m->kinds[n]]++;
        NEED(!integer_of(j, member_of(j, at, "index"), 0, INT32_MAX, &index), "slot %d has no number", n);
        if (m->kinds[n] == SLOT_SCRATCH) {
            NEED(m->scratch_bytes <= MOST_BYTES, "the slots are too large");
            m->scratch_bytes += (m->sizes[n] + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
            continue;
        }
        const int limits[] = {m->num_inputs, m->num_outputs, m->num_weights}, first[] = {0, m->num_inputs, m->num_inputs + m->num_outputs};
        NEED(index < limits[m->kinds[n]] && number < limits[m->kinds[n]], "slot %d is of no argument", n);
        struct port *const p = &m->ports[first[m->kinds[n]] + index];
        NEED(p->slot < 0, "two slots are %s %d", KINDS[m->kinds[n]], (int)index);
        if (m->kinds[n] == SLOT_CONSTANT) {
            const int code = read_tensor(j, at, p, "constant", (int)index);
            if (code) return code;
            p->argument.kind = TX8RT_WEIGHTS, p->argument.offset = (int)index;
        }
        p->slot = n;
        NEED((i64)p->argument.size_bytes == m->sizes[n], "slot %d has not the size of its tensor", n);
        const int over = member_of(j, at, "takes_over");
        if (over >= 0 && j->values[over].kind != JSON_NULL) {
            NEED(m->kinds[n] == SLOT_OUTPUT && !integer_of(j, over, 0, m->num_inputs - 1, &taken), "slot %d takes over nothing", n);
            NEED(m->ports[taken].argument.size_bytes == p->argument.size_bytes, "slot %d takes over nothing", n);
            p->argument.alias_offset = (int)taken;
        }
    }
    for (int i = 0; i < m->num_inputs + m->num_outputs + m->num_weights; i++) NEED(m->ports[i].slot >= 0, "an argument has no slot");
    return 0;
}

static int read_constants(struct model *m, struct bytes archive) {
    i64 total = 0;
    for (int i = 0; i < m->num_weights; i++) total += (i64)m->ports[m->num_inputs + m->num_outputs + i].argument.size_bytes;
    const int code = read_member(archive, "constants.safetensors", (size_t)(total + total / 8 + (1 << 16)), &m->constants);
    if (code) return code;
    u64 header = 0;
    NEED(m->constants.size >= 8 && (memcpy(&header, m->constants.data, 8), header <= m->constants.size - 8), "the constants are damaged");
    struct json j;
    const char *what = parse_json(&j, (const char *)m->constants.data + 8, header) ? "the constants are damaged" : NULL;
    const i64 data = 8 + (i64)header, size = (i64)m->constants.size - data;
    for (int i = 0; !what && i < m->num_weights; i++) {
        tx8rt_argument *const a = &m->ports[m->num_inputs + m->num_outputs + i].argument;
        char name[40];
        i64 start, end;
        snprintf(name, sizeof name, "constant%d", i);
        const int offsets = member_of(&j, member_of(&j, 0, name), "data_offsets");
        if (integer_of(&j, item_of(&j, offsets, 0), 0, size, &start) || integer_of(&j, item_of(&j, offsets, 1), start, size, &end) ||
            (size_t)(end - start) != a->size_bytes)
            what = "a constant is missing or has another size";
        else a->data = m->constants.data + data + start;
    }
    free(j.values);
    return what ? refuse(TX8RT_CONTAINER, "%s", what) : 0;
}

static int read_origins(struct model *m, const struct json *j) {
    const int origins = member_of(j, 0, "origins");
    m->num_origins = origins < 0 ? 0 : j->values[origins].count;
    m->origins = calloc((size_t)m->num_origins + 1, sizeof *m->origins);
    for (int i = 0, at = origins + 1; m->origins && i < m->num_origins; i++, at = j->values[at].next) m->origins[i] = string_of(j, at);
    return m->origins ? 0 : refuse(TX8RT_MEMORY, "no memory for the program");
}

static int read_version(const struct json *j) {
    const int version = member_of(j, 0, "format_version"), producer = member_of(j, 0, "producer");
    const struct value *const v = &j->values[version < 0 ? 0 : version];
    i64 old;
    if ((version >= 0 && v->kind == JSON_STRING && v->size > 2 && !memcmp(v->text, "5.", 2)) || !integer_of(j, version, 4, 4, &old)) return 0;
    char *const by = string_of(j, producer);
    refuse(TX8RT_CONTAINER, "the file has format version %.*s of %.40s, this library reads 4.0.0 and 5", version < 0 ? 4 : (int)(v->size > 20 ? 20 : v->size),
           version < 0 ? "none" : v->text, by ? by : "an unknown writer");
    free(by);
    return TX8RT_CONTAINER;
}

static int read_manifest(struct model *m, const struct json *j, struct bytes archive) {
    const int chip = member_of(j, 0, "chip"), laws = member_of(j, chip, "laws"), options = member_of(j, 0, "options");
    int code = read_version(j);
    if (code) return code;
    const int inputs = member_of(j, 0, "inputs"), outputs = member_of(j, 0, "outputs"), slots = member_of(j, 0, "slots");
    NEED(inputs >= 0 && outputs >= 0 && slots >= 0 && j->values[slots].kind == JSON_LIST, "the manifest has no arguments");
    NEED(j->values[inputs].kind == JSON_LIST && j->values[outputs].kind == JSON_LIST, "the manifest has no arguments");
    const int mode = member_of(j, options, "mode");
    if (!is_text(j, mode, "fast")) {
        char *const text = string_of(j, mode);
        refuse(TX8RT_UNSUPPORTED, "it was saved to run in mode %.40s, which Python alone has: hlo2tx8.load runs it, or save it with mode fast", text ? text : "none");
        free(text);
        return TX8RT_UNSUPPORTED;
    }
    m->num_inputs = j->values[inputs].count, m->num_outputs = j->values[outputs].count, m->num_slots = j->values[slots].count;
    for (int n = 0, at = slots + 1; n < m->num_slots; n++, at = j->values[at].next) m->num_weights += is_text(j, member_of(j, at, "kind"), "constant");
    const size_t num_ports = (size_t)m->num_inputs + (size_t)m->num_outputs + (size_t)m->num_weights;
    m->ports = calloc(num_ports + 1, sizeof *m->ports), m->sizes = calloc((size_t)m->num_slots + 1, sizeof *m->sizes);
    m->kinds = calloc((size_t)m->num_slots + 1, 1), m->name = string_of(j, member_of(j, 0, "name"));
    if (!m->ports || !m->sizes || !m->kinds || !m->name) return refuse(TX8RT_CONTAINER, "the manifest has no name, or there is no memory");
    for (size_t i = 0; i < num_ports; i++) m->ports[i].slot = -1;
    NEED(!integer_of(j, member_of(j, chip, "tiles"), 1, MAX_TILES, &m->tiles), "the chip has no tiles");
    NEED(!integer_of(j, member_of(j, chip, "spm_limit"), 1, 1 << 30, &m->spm_bytes), "the chip has no scratchpads");
    NEED(!integer_of(j, member_of(j, options, "threads"), 0, MAX_THREADS, &m->threads), "no number of threads");
    m->satrelu_bound = number_of(j, member_of(j, laws, "satrelu_bound")), m->leakyrelu_slope = number_of(j, member_of(j, laws, "leakyrelu_slope"));
    NEED(!integer_of(j, member_of(j, 0, "num_instructions"), 0, (i64)1 << 32, &m->num_records), "the manifest has no instructions");
    if ((code = read_ports(m, j)) || (code = read_slots(m, j, slots)) || (code = read_origins(m, j)) || (code = read_constants(m, archive))) return code;
    struct bytes program;
    const size_t size = (size_t)m->num_records * RECORD_WORDS * sizeof(u64);
    if ((code = read_member(archive, "program.bin", size, &program))) return code;
    m->code = (u64 *)program.data;
    NEED(program.size == size, "the program has another size");
    return 0;
}

int read_model(struct bytes archive, const char *what, struct model **found) {
    struct model *const m = calloc(1, sizeof *m);
    struct bytes manifest = {0};
    struct json j = {0};
    if (!m) return refuse(TX8RT_MEMORY, "no memory for a model");
    pthread_mutex_init(&m->mutex, NULL);
    int code = read_member(archive, "manifest.json", MOST_MANIFEST_BYTES, &manifest);
    if (!code && parse_json(&j, (const char *)manifest.data, manifest.size)) code = refuse(TX8RT_CONTAINER, "the manifest is no JSON");
    if (!code) code = read_manifest(m, &j, archive);
    free(j.values);
    free(manifest.data);
    if (!code) {
        *found = m;
        return 0;
    }
    free_model(m, NULL);
    char why[MESSAGE_BYTES];
    const char *const told = strchr(tx8rt_error(), ':');
    snprintf(why, sizeof why, "%s", told ? told + 2 : "");
    return refuse(code, "%s: %s", what, why);
}

void free_model(struct model *m, tx8rt_session *session) {
    for (struct launcher *l = m->ready, *next; l; l = next) {
        next = l->next;
        session->core.destroy(l->machine);
        free(l->slots), free(l->scratch), free(l);
    }
    for (int i = 0; m->ports && i < m->num_inputs + m->num_outputs + m->num_weights; i++) {
        free((char *)m->ports[i].argument.name);
        free(m->ports[i].shape), free(m->ports[i].layout), free(m->ports[i].required);
    }
    for (i64 i = 0; m->origins && i < m->num_origins; i++) free(m->origins[i]);
    pthread_mutex_destroy(&m->mutex);
    free(m->origins), free(m->ports), free(m->sizes), free(m->kinds), free(m->name), free(m->code), free(m->constants.data), free(m);
}
