/* Calls of functions that Python serves: how many are under way, and an error where Ctrl-C came before Python could give one. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "handles.h"

enum { CANCELLED = 1, MOST_FUNCTIONS = 0200 };

/* What a function of Python is given. It leaves an error or tx8_nothing; NULL stays if an exception was lost on its way in or out. */
struct call {
    void *args, *result;
};

typedef void *(*entry)(void *args);
typedef void (*function)(struct call *call);

static function served[MOST_FUNCTIONS];
static int num_served;
static atomic_int under_way;

static void *serve(int index, void *args) {
    static const char message[] = "KeyboardInterrupt";
    struct call call = {args, NULL};
    atomic_fetch_add(&under_way, 1);
    served[index](&call);
    atomic_fetch_sub(&under_way, 1);
    if (call.result) return call.result == (void *)tx8_nothing ? NULL : call.result;
    struct sigaction now;
    const int is_main = gettid() == getpid();
    if (is_main && !sigaction(SIGINT, NULL, &now) && now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN)
        raise(SIGINT); /* for the code around the call */
    return tx8_error(CANCELLED, message, sizeof message - 1);
}

/* A table has one address per function and gives it nothing but its arguments: entry points by their octal number. */
#define ENTRY(a, b, c) \
    static void *entry_##a##b##c(void *args) { return serve(0##a##b##c, args); }
#define ROW(F, a, b) F(a, b, 0) F(a, b, 1) F(a, b, 2) F(a, b, 3) F(a, b, 4) F(a, b, 5) F(a, b, 6) F(a, b, 7)
#define HALF(F, a) ROW(F, a, 0) ROW(F, a, 1) ROW(F, a, 2) ROW(F, a, 3) ROW(F, a, 4) ROW(F, a, 5) ROW(F, a, 6) ROW(F, a, 7)
#define NAME(a, b, c) entry_##a##b##c,
HALF(ENTRY, 0)
HALF(ENTRY, 1)
static const entry ENTRIES[MOST_FUNCTIONS] = {HALF(NAME, 0) HALF(NAME, 1)};

static void forget(void) { atomic_store(&under_way, 0); } /* in a child none of the other threads is there */

/* The entry point of a function of Python; NULL if there are too many. */
EXPORT void *tx8_entry(void *python) {
    if (!num_served) pthread_atfork(NULL, NULL, forget);
    if (num_served == MOST_FUNCTIONS) return NULL;
    served[num_served] = (function)python;
    return (void *)ENTRIES[num_served++];
}

/* How many calls are under way, in Python or waiting for it. */
EXPORT int32_t tx8_calls(void) { return atomic_load(&under_way); }
