/* Runs a compiled program on files of raw arrays, without Python:
 *
 *     cc run_program.c $(pkg-config --cflags --libs "$FOLDER"/tx8runtime.pc) -o run_program
 *     ./run_program gelu.tx8x x.bin > y.bin
 *
 * FOLDER is what `python -c "from hlo2tx8.runtime import native; print(native.folder())"` prints. Inputs are files in the order of the
 * program's inputs; the outputs' bytes are written one behind the other. TX8_QUEUE=1c2t runs it with transfers on threads of their own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tx8_runtime.h"

static int fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, tx8rt_error());
    return 1;
}

static void print(const tx8rt_argument *a, const char *kind) {
    fprintf(stderr, "%s %d %s: %s[", kind, a->offset, a->name, a->dtype);
    for (int d = 0; d < a->rank; d++) fprintf(stderr, d ? ",%lld" : "%lld", (long long)a->shape[d]);
    fprintf(stderr, "], %zu bytes\n", a->size_bytes);
}

static int read_array(const char *path, void *data, size_t size) {
    FILE *const file = fopen(path, "rb");
    const int is_whole = file && fread(data, 1, size, file) == size && fgetc(file) == EOF;
    if (file) fclose(file);
    if (!is_whole) fprintf(stderr, "%s is no file of %zu bytes\n", path, size);
    return !is_whole;
}

static int run(tx8rt_session *session, tx8rt_request *request, int model, char **files) {
    const int num_inputs = tx8rt_session_count(session, model, TX8RT_INPUTS);
    const int num_arguments = tx8rt_session_count(session, model, TX8RT_ARGUMENTS);
    tx8rt_argument a;
    if (tx8rt_finish_io_binding(request)) return fail("finish_io_binding"); /* all arguments get memory of the session */
    for (int i = 0; i < num_arguments; i++) {
        tx8rt_session_argument(session, model, TX8RT_ARGUMENTS, i, &a);
        print(&a, i < num_inputs ? "input" : "output");
        if (i < num_inputs && read_array(files[i], tx8rt_get_arg(request, i), a.size_bytes)) return 1;
    }
    if (tx8rt_run(request, NULL, NULL) || tx8rt_sync(request)) return fail("run");
    for (int i = num_inputs; i < num_arguments; i++) {
        tx8rt_session_argument(session, model, TX8RT_ARGUMENTS, i, &a);
        if (fwrite(tx8rt_get_arg(request, i), 1, a.size_bytes, stdout) != a.size_bytes) return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    const char *const kind = getenv("TX8_QUEUE");
    tx8rt_session *session;
    tx8rt_request *request;
    tx8rt_queue *queue = NULL;
    int model, failed;
    if (argc < 2) return fprintf(stderr, "run_program FILE.tx8x INPUT...\n"), 2;
    if (tx8rt_session_create(NULL, &session)) return fail("session");
    if (tx8rt_session_load(session, argv[1], NULL, &model)) return fail("load");
    if (argc - 2 != tx8rt_session_count(session, model, TX8RT_INPUTS)) return fprintf(stderr, "another number of inputs\n"), 2;
    if (kind && !strcmp(kind, "1c2t") && tx8rt_queue_create(TX8RT_ONE_COMPUTE_TWO_TRANSFERS, &queue)) return fail("queue");
    if (tx8rt_request_create(session, model, queue, &request)) return fail("request");
    failed = run(session, request, model, argv + 2);
    tx8rt_request_destroy(request);
    if (tx8rt_queue_destroy(queue) || tx8rt_session_destroy(session)) return fail("end");
    return failed;
}
