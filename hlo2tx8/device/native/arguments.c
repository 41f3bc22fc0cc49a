/* Where arrays lie that Python passes, all in one call: one by one they take ctypes longer than some programs. What is read of an
 * object is the buffer of Python's stable ABI, by functions that come as addresses: the library does not depend on Python's. */
#include "core.h"

#define PY_C_CONTIGUOUS 0x38

struct py_buffer {
    void *data, *object;
    ptrdiff_t size, item_size;
    int is_readonly, num_dims;
    char *format;
    ptrdiff_t *shape, *strides, *suboffsets;
    void *internal;
};

struct python {
    int (*get_buffer)(void *object, struct py_buffer *buffer, int flags);
    void (*release_buffer)(struct py_buffer *buffer);
    void *(*item)(void *tuple, ptrdiff_t number);
    void (*clear_error)(void);
};

/* Binds the slots `numbers` to the arrays of a tuple from number `first` on; the number of the first one that has no contiguous buffer of
 * its slot's size, or `num`. The caller holds Python's lock, and the arrays until the run is over. */
EXPORTED i64 tx8_bind(const struct python *p, void *tuple, i64 first, i64 num, const i64 *numbers, struct tx8_slot *slots) {
    for (i64 i = first; i < num; i++) {
        struct py_buffer buffer;
        if (p->get_buffer(p->item(tuple, i), &buffer, PY_C_CONTIGUOUS)) {
            p->clear_error();
            return i;
        }
        struct tx8_slot *const slot = slots + numbers[i];
        const int fits = buffer.size == slot->size;
        if (fits) slot->data = buffer.data;
        p->release_buffer(&buffer);
        if (!fits) return i;
    }
    return num;
}
