/* Where arrays lie that Python passes, all in one call: one by one they take ctypes longer than some programs. What is read of an
 * object is the buffer of Python's stable ABI, by functions that come as addresses: the library does not depend on Python's. Of an array
 * of numpy that looks as its slot's arrays do, the address is read where it is, as every extension does that uses numpy: see arrays.py. */
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
    const void *array_type; /* NULL where its objects are not as below */
};

/* The beginning of an array's object. */
struct array {
    ptrdiff_t references;
    const void *type;
    void *data;
    int num_dims;
    const ptrdiff_t *dims, *strides;
    const void *base, *dtype;
    int flags;
};
#define ARRAY_C_CONTIGUOUS 1

struct look {
    const void *dtype;
    i64 num_dims;
    const i64 *dims;
};

static int has_look(const struct python *p, const struct array *a, const struct look *look) {
    if (a->type != p->array_type || a->dtype != look->dtype || a->num_dims != look->num_dims || !(a->flags & ARRAY_C_CONTIGUOUS)) return 0;
    for (i64 i = 0; i < look->num_dims; i++)
        if (a->dims[i] != look->dims[i]) return 0;
    return 1;
}

/* Do the first `num` arrays of a tuple look so? The caller holds Python's lock, as for the next one. */
EXPORTED int tx8_look(const struct python *p, void *tuple, i64 num, const struct look *looks) {
    for (i64 i = 0; i < num; i++)
        if (!p->array_type || !has_look(p, p->item(tuple, i), looks + i)) return 0;
    return 1;
}

/* Binds the slots `numbers` to the arrays of a tuple from number `first` on; the number of the first one that has no contiguous buffer of
 * its slot's size, or `num`. The caller holds Python's lock, and the arrays until the run is over. `looks` are of arrays of the slots'
 * sizes; NULL if they are not known. */
EXPORTED i64 tx8_bind(const struct python *p, void *tuple, i64 first, i64 num, const i64 *numbers, struct tx8_slot *slots, const struct look *looks) {
    for (i64 i = first; i < num; i++) {
        struct tx8_slot *const slot = slots + numbers[i];
        void *const object = p->item(tuple, i);
        if (looks && p->array_type && has_look(p, object, looks + i)) {
            slot->data = ((const struct array *)object)->data;
            continue;
        }
        struct py_buffer buffer;
        if (p->get_buffer(object, &buffer, PY_C_CONTIGUOUS)) {
            p->clear_error();
            return i;
        }
        const int fits = buffer.size == slot->size;
        if (fits) slot->data = buffer.data;
        p->release_buffer(&buffer);
        if (!fits) return i;
    }
    return num;
}
