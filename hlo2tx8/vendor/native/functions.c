/* The core's functions, and those that fill parameter blocks. */
#include <stdio.h>
#ifndef TX8_STATIC
#include <dlfcn.h>
#endif

#include "model.h"
#include "tx8_ops.h"
#include "timed_kinds.h"

const struct timed_kind *timed_kinds(void) { return STREAM_KINDS; }

API const TsmOpPointer *getTsmOpPointer(void) { return &POINTERS; }

#ifdef TX8_STATIC
#define DECLARE(name) name##_call name;
CORE_FUNCTIONS(DECLARE)
#define TAKE(name) f->name = name;

int find_functions(struct functions *f, char *message) {
    (void)message;
    CORE_FUNCTIONS(TAKE)
    return 0;
}
#else
#define TAKE(name) f->name = (name##_call *)(uintptr_t)dlsym(library, #name), is_whole &= f->name != NULL;

int find_functions(struct functions *f, char *message) {
    void *const library = open_core(NULL, message, MESSAGE_BYTES);
    int is_whole = 1;
    if (!library) return 1;
    CORE_FUNCTIONS(TAKE)
    if (!is_whole) snprintf(message, MESSAGE_BYTES, "the emulator's core lacks functions; build it again");
    return !is_whole;
}
#endif
