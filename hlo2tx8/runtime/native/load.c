/* Find and open the build of the emulator's core that fits this processor. */
#ifndef TX8_STATIC
#include <dlfcn.h>
#endif
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core.h"
#include "load.h"
#include "made_of.h"

#ifndef TX8_STATIC
static void *function(void *library, const char *name) { return dlsym(library, name); }

/* The core of that file, if it is of this version and this processor has its instructions. */
static void *try_core(const char *path) {
    void *const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return NULL;
    int (*const version)(void) = (int (*)(void))function(library, "tx8_abi_version");
    int (*const supported)(void) = (int (*)(void))function(library, "tx8_supported");
    const char *(*const declarations)(void) = (const char *(*)(void))function(library, "tx8_declarations");
    if (version && supported && declarations && version() == ABI_VERSION && !strcmp(declarations(), DECLARATIONS_DIGEST) && supported()) return library;
    dlclose(library);
    return NULL;
}

void *open_core(const char *folder, char *message, size_t size) {
    static const char *const CORES[] = {"v4", "v3", "v2", "baseline"};
    char own[4096], path[4096 + 64];
    Dl_info info;
    if (!folder) {
        if (!dladdr((void *)(uintptr_t)open_core, &info) || snprintf(own, sizeof own, "%s", info.dli_fname) >= (int)sizeof own) {
            snprintf(message, size, "this library does not know where it is: options.cores says where the cores are");
            return NULL;
        }
        char *const slash = strrchr(own, '/');
        if (slash) *slash = 0;
        snprintf(path, sizeof path, "%s/../../device/native", slash ? own : ".");
        snprintf(own, sizeof own, "%.4000s", path);
        folder = own;
    }
    for (int i = 0; i < COUNT_OF(CORES); i++) {
        snprintf(path, sizeof path, "%.4000s/core_%s.so", folder, CORES[i]);
        void *const library = try_core(path);
        if (library) return library;
    }
    snprintf(message, size, "no core of the emulator in %.400s that is of this version and fits this processor", folder);
    return NULL;
}
#endif

int processors(void) {
#ifdef __linux__
    cpu_set_t set; /* which a container or `taskset` makes smaller than the machine */
    if (!sched_getaffinity(0, sizeof set, &set)) return CPU_COUNT(&set);
#endif
    const long found = sysconf(_SC_NPROCESSORS_ONLN);
    return found > 0 ? (int)found : 1;
}
