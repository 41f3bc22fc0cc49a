/* What a main program calls: records are put together for the core, and told to the timing model. */
#include <stdio.h>
#include <stdlib.h>

#include "model.h"


_Thread_local struct core *current;

static const struct {
    i64 opcode;
    const char *name;
} FAULTS[] = {{FAULT_ILLEGAL_OPCODE, "illegal_opcode"}, {FAULT_OUT_OF_BOUNDS, "out_of_bounds"}, {FAULT_BAD_DESCRIPTOR, "bad_descriptor"},
              {FAULT_UNEQUAL_BARRIER, "unequal_barrier"}, {FAULT_RUNAWAY, "runaway"}, {FAULT_UNPUBLISHED, "unpublished"}};

/* Back to the host, which resumes it after a barrier. */
static void leave(struct core *c, enum core_state state) {
    c->state = state;
    swapcontext(&c->own, c->host);
}

static void fail_core(struct core *c, const char *kind, const char *detail, i64 instruction) {
    snprintf(c->why, sizeof c->why, "fault %s: %s\n  at tile %d, instruction %lld of it", kind, detail, (int)c->tile.id, (long long)instruction);
    for (;;) leave(c, CORE_FAULT);
}

API void TsmFail(const char *why) {
    fail_core(current, "bad_descriptor", why, current->issued);
    abort();
}

/* Runs what has been put together. */
static void flush(struct core *c, int is_at_barrier) {
    struct tx8_fault fault;
    const char *kind = "unknown";
    const int number = c->model->core.tx8_stream_run(c->model->machine, c->tile.id, c->thread, c->num, is_at_barrier, &fault);
    const i64 first = c->issued - c->num;
    c->num = 0;
    if (!number) return;
    for (int i = 0; i < COUNT_OF(FAULTS); i++)
        if (FAULTS[i].opcode == number) kind = FAULTS[i].name;
    fail_core(c, kind, fault.detail, first + fault.record);
}

/* Tells the modelled time of a record. */
static double tell(struct core *c, const u64 *record) {
    const i64 before = c->tile.cycles;
    c->tile.cycles = 0;
    if (!c->model->is_timed) return 0.0;
    const double cycles = c->model->core.tx8_time_issue(c->model->timing, c->tile.id, record, before);
    if (cycles < 0.0) fail_core(c, "bad_descriptor", "there is no model of how long it takes", c->issued);
    return cycles;
}

static void tell_control(struct core *c, int opcode, i64 operand) {
    const u64 record[RECORD_WORDS] = {[0] = (u64)opcode | (u64)ENGINE_KC << 40, [HEADER_WORDS] = (u64)operand};
    tell(c, record);
}

API uint64_t TsmExecute(const void *param) {
    struct core *const c = current;
    const CT_Param *const p = param; /* all blocks are alike */
    const TsmCtlRegs r = p->ctrl;
    u64 *const record = c->records + c->num * RECORD_WORDS;
    record[0] = (u64)r.opcode | (u64)r.format << 16 | (u64)r.source_format << 24 | (u64)r.rounding << 32 | (u64)r.engine << 40;
    record[1] = record[2] = record[3] = 0;
    if (p->param.num > TSM_MOST_OPERANDS) fail_core(c, "bad_descriptor", "a parameter block that no function of tx8.h has filled", c->issued);
    memcpy(record + HEADER_WORDS, p->param.operand, p->param.num * sizeof *record);
    const double cycles = tell(c, record);
    c->num++, c->issued++;
    if (c->num == STREAM_RECORDS) flush(c, 0);
    return (uint64_t)cycles;
}

API void TsmWait(uint32_t engines) { tell_control(current, OP_KC_WAIT, engines); }

API void TsmBarrier(void) {
    struct core *const c = current;
    tell_control(c, OP_KC_BARRIER, 0);
    flush(c, 1);
    leave(c, CORE_AT_BARRIER);
}

API int64_t TsmLoadScalar(int64_t address, Data_Format format) {
    struct core *const c = current;
    u64 *const record = c->records + c->num * RECORD_WORDS;
    memset(record, 0, RECORD_WORDS * sizeof *record);
    record[0] = OP_KC_LOAD_SCALAR | (u64)format << 16 | (u64)ENGINE_KC << 40;
    record[HEADER_WORDS + KC_LOAD_SCALAR__RD] = STREAM_REGISTER;
    record[HEADER_WORDS + KC_LOAD_SCALAR__ADDRESS] = (u64)address;
    c->num++, c->issued++;
    flush(c, 0);
    return c->model->core.tx8_stream_loaded(c->model->machine, c->tile.id);
}

void run_main(void) {
    struct core *const c = current;
    c->model->program->tile_main(&c->tile);
    tell_control(c, OP_KC_HALT, 0);
    flush(c, 0);
    for (;;) leave(c, CORE_ENDED);
}

