/* A folder's data as the slots of a program: every file has exactly the size that the program says. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "model.h"

#define MOST_BYTES ((i64)1 << 40)
#ifdef __riscv
#define PLATFORM "riscv"
#else
#define PLATFORM "cmodel"
#endif

static int open_file(FILE **file, const char *folder, const char *name, const char *mode, char *message) {
    char path[4096];
    if (snprintf(path, sizeof path, "%s/chip0/agent/data/%s", folder, name) >= (int)sizeof path) path[0] = 0;
    *file = fopen(path, mode);
    if (!*file) snprintf(message, MESSAGE_BYTES, "%.800s: %s", path, strerror(errno));
    return !*file;
}

static int read_file(const char *folder, const char *name, i64 from, u8 *data, i64 size, i64 whole, char *message) {
    FILE *file;
    if (open_file(&file, folder, name, "rb", message)) return 1;
    fseek(file, 0, SEEK_END);
    const i64 found = (i64)ftell(file);
    int failed = found != whole;
    if (failed) snprintf(message, MESSAGE_BYTES, "chip0/agent/data/%s has %lld bytes, and the program takes %lld", name, (long long)found, (long long)whole);
    else failed = fseek(file, (long)from, SEEK_SET) || fread(data, 1, (size_t)size, file) != (size_t)size;
    if (failed && found == whole) snprintf(message, MESSAGE_BYTES, "chip0/agent/data/%s cannot be read", name);
    fclose(file);
    return failed;
}

/* Bytes of const.bin: to the end of the last constant. */
static i64 constant_bytes(const TsmProgram *p) {
    i64 end = 0;
    for (i32 i = 0; i < p->num_slots; i++)
        if (p->slots[i].kind == TSM_CONSTANT && p->slots[i].index + p->slots[i].size > end) end = p->slots[i].index + p->slots[i].size;
    return end;
}

static i32 input_slot(const TsmProgram *p, i64 index) {
    for (i32 i = 0; i < p->num_slots; i++)
        if (p->slots[i].kind == TSM_INPUT && p->slots[i].index == index) return i;
    return -1;
}

static int read_slot(const TsmProgram *p, const char *folder, i32 i, struct ddr *ddr, char *message) {
    const TsmSlot *const slot = p->slots + i;
    char name[64];
    snprintf(name, sizeof name, "in%lld.bin", (long long)slot->index);
    if (slot->kind == TSM_INPUT) return read_file(folder, name, 0, ddr->slots[i].data, slot->size, slot->size, message);
    if (slot->kind == TSM_CONSTANT) return read_file(folder, "const.bin", slot->index, ddr->slots[i].data, slot->size, constant_bytes(p), message);
    ddr->is_written[i] = 1;
    if (slot->takes_over < 0) return 0;
    const i32 taken = input_slot(p, slot->takes_over);
    if (taken < 0 || p->slots[taken].size != slot->size) {
        snprintf(message, MESSAGE_BYTES, "output %lld takes over no input", (long long)slot->index);
        return 1;
    }
    if (!(ddr->inputs[i] = malloc((size_t)slot->size + 1))) return snprintf(message, MESSAGE_BYTES, "no memory"), 1;
    return read_slot(p, folder, taken, ddr, message) || (memcpy(ddr->inputs[i], ddr->slots[taken].data, (size_t)slot->size), 0);
}

int read_folder(const TsmProgram *p, const char *folder, struct ddr *ddr, char *message) {
    ddr->slots = calloc((size_t)p->num_slots + 1, sizeof *ddr->slots);
    ddr->is_written = calloc((size_t)p->num_slots + 1, 1);
    ddr->inputs = calloc((size_t)p->num_slots + 1, sizeof *ddr->inputs);
    int failed = !ddr->slots || !ddr->is_written || !ddr->inputs;
    for (i32 i = 0; !failed && i < p->num_slots; i++) {
        const i64 size = p->slots[i].size, room = (size + LINE_BYTES) / LINE_BYTES * LINE_BYTES;
        ddr->slots[i].size = size;
        ddr->slots[i].data = size >= 0 && size < MOST_BYTES ? aligned_alloc(LINE_BYTES, (size_t)room) : NULL;
        failed = !ddr->slots[i].data;
        if (!failed) memset(ddr->slots[i].data, 0, (size_t)room);
    }
    if (failed) snprintf(message, MESSAGE_BYTES, "no memory for what is in DDR");
    for (i32 i = 0; !failed && i < p->num_slots; i++) failed = read_slot(p, folder, i, ddr, message);
    /* Such an output is the input's memory. */
    for (i32 i = 0; !failed && i < p->num_slots; i++) {
        if (!ddr->inputs[i]) continue;
        free(ddr->slots[i].data);
        ddr->slots[i].data = ddr->slots[input_slot(p, p->slots[i].takes_over)].data;
    }
    return failed;
}

void begin_launch(const TsmProgram *p, struct ddr *ddr) {
    for (i32 i = 0; i < p->num_slots; i++)
        if (ddr->inputs[i]) memcpy(ddr->slots[i].data, ddr->inputs[i], (size_t)p->slots[i].size);
}

int write_results(const TsmProgram *p, const char *folder, const struct ddr *ddr, char *message) {
    for (i32 i = 0; i < p->num_slots; i++) {
        FILE *file;
        char name[64];
        if (p->slots[i].kind != TSM_OUTPUT) continue;
        snprintf(name, sizeof name, "out%lld_" PLATFORM ".bin", (long long)p->slots[i].index);
        if (open_file(&file, folder, name, "wb", message)) return 1;
        const size_t size = (size_t)p->slots[i].size;
        if (fwrite(ddr->slots[i].data, 1, size, file) != size || fclose(file)) return snprintf(message, MESSAGE_BYTES, "%s: %s", name, strerror(errno)), 1;
    }
    return 0;
}

void free_ddr(const TsmProgram *p, struct ddr *ddr) {
    for (i32 i = 0; i < p->num_slots; i++) {
        if (ddr->slots && !(ddr->inputs && ddr->inputs[i])) free(ddr->slots[i].data);
        if (ddr->inputs) free(ddr->inputs[i]);
    }
    free(ddr->slots), free(ddr->is_written), free(ddr->inputs);
}
