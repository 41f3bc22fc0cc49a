/* Ctrl-C while jax's thread waits in C++: Python hears of it when that thread returns, which may be too late for what it waits for. */
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

#include "handles.h"

static atomic_int count;
static struct sigaction python; /* the handler that was there first; never another one, so no chain can close to a ring */

static void on_interrupt(int number, siginfo_t *info, void *context) {
    atomic_fetch_add(&count, 1);
    if (python.sa_flags & SA_SIGINFO)
        python.sa_sigaction(number, info, context);
    else
        python.sa_handler(number);
}

/* How often Ctrl-C was pressed since it is counted: from the first call on, as long as Python's handler is in place or ours. */
EXPORT int32_t tx8_interrupts(void) {
    struct sigaction now;
    if (sigaction(SIGINT, NULL, &now)) return atomic_load(&count);
    const int is_plain = !(now.sa_flags & SA_SIGINFO) && now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN;
    if (is_plain && (!python.sa_handler || python.sa_handler == now.sa_handler)) {
        python = now;
        now.sa_sigaction = on_interrupt;
        now.sa_flags |= SA_SIGINFO;
        sigaction(SIGINT, &now, NULL);
    }
    return atomic_load(&count);
}
