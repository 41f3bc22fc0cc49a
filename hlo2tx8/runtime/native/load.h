/* The emulator's core, loaded from beside the package's own, for libraries without Python. */
#ifndef TX8_LOAD_H
#define TX8_LOAD_H

#include <stddef.h>

/* The best core in that folder of this version whose instructions this processor has; NULL for the installed package's. NULL if there is none, and
 * the message says so. */
void *open_core(const char *folder, char *message, size_t size);
int processors(void); /* that this process may use */

#endif
