/* Members of a zip file: stored or deflated, their sums checked. Every length is checked before it is used. */
#include <stdlib.h>

#include "internal.h"

#define MOST_BITS 15
#define END_BYTES 22
#define ENTRY_BYTES 46
#define LOCAL_BYTES 30

struct input {
    const u8 *at, *end;
    u64 bits;
    int num;
};

static u32 get16(const u8 *p) { return (u32)p[0] | (u32)p[1] << 8; }
static u32 get32(const u8 *p) { return get16(p) | get16(p + 2) << 16; }

static u32 crc_of(const u8 *data, size_t size) {
    u32 table[256], crc = ~0u;
    for (u32 i = 0; i < 256; i++) {
        u32 c = i;
        for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0xEDB88320u : c >> 1;
        table[i] = c;
    }
    for (size_t i = 0; i < size; i++) crc = table[(crc ^ data[i]) & 255] ^ crc >> 8;
    return ~crc;
}

/* At least MOST_BITS bits, zeros behind the end. */
static void fill(struct input *in) {
    while (in->num <= 48) {
        in->bits |= (u64)(in->at < in->end ? *in->at : 0) << in->num;
        in->at++;
        in->num += 8;
    }
}

static u32 take(struct input *in, int count) {
    fill(in);
    const u32 found = (u32)(in->bits & ((1u << count) - 1));
    in->bits >>= count, in->num -= count;
    return found;
}

/* Were bits taken that are not there? */
static int is_over(const struct input *in) { return in->at - in->num / 8 > in->end; }

/* For each MOST_BITS bits the symbol whose code they begin with, and the code's length below it; 0 if the lengths are of no code. */
static int build(u16 *table, const u8 *lengths, int num) {
    int count[MOST_BITS + 1] = {0}, next[MOST_BITS + 1], left = 1;
    for (int s = 0; s < num; s++) count[lengths[s]]++;
    next[1] = 0;
    for (int n = 1; n <= MOST_BITS; n++) {
        left = 2 * left - count[n];
        if (left < 0) return 0;
        if (n < MOST_BITS) next[n + 1] = (next[n] + count[n]) << 1;
    }
    memset(table, 0, sizeof *table << MOST_BITS);
    for (int s = 0; s < num; s++) {
        const int n = lengths[s];
        if (!n) continue;
        const int code = next[n]++;
        int turned = 0;
        for (int bit = 0; bit < n; bit++) turned |= (code >> bit & 1) << (n - 1 - bit);
        for (int i = turned; i < 1 << MOST_BITS; i += 1 << n) table[i] = (u16)(s << 4 | n);
    }
    return 1;
}

/* -1 if no code fits. */
static int symbol(struct input *in, const u16 *table) {
    fill(in);
    const u32 entry = table[in->bits & ((1 << MOST_BITS) - 1)];
    in->bits >>= entry & 15, in->num -= (int)(entry & 15);
    return entry ? (int)(entry >> 4) : -1;
}

/* The two codes of a block with its own; 0 if they are none. */
static int read_codes(struct input *in, u16 *literals, u16 *distances) {
    static const u8 ORDER[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    u8 lengths[320 + 138] = {0}, own[19] = {0};
    const int num_literals = (int)take(in, 5) + 257, num_distances = (int)take(in, 5) + 1, num_own = (int)take(in, 4) + 4;
    for (int i = 0; i < num_own; i++) own[ORDER[i]] = (u8)take(in, 3);
    if (num_literals > 286 || num_distances > 30 || !build(literals, own, 19)) return 0;
    int num = 0;
    while (num < num_literals + num_distances) {
        const int s = symbol(in, literals);
        if (s < 0 || is_over(in) || (s == 16 && !num)) return 0;
        if (s < 16) {
            lengths[num++] = (u8)s;
            continue;
        }
        const u8 repeated = s == 16 ? lengths[num - 1] : 0;
        int turns = s == 16 ? 3 + (int)take(in, 2) : s == 17 ? 3 + (int)take(in, 3) : 11 + (int)take(in, 7);
        while (turns--) lengths[num++] = repeated;
    }
    if (num != num_literals + num_distances || !lengths[256]) return 0;
    return build(literals, lengths, num_literals) && build(distances, lengths + num_literals, num_distances);
}

static void fixed_codes(u16 *literals, u16 *distances) {
    u8 lengths[288];
    for (int s = 0; s < 288; s++) lengths[s] = s < 144 ? 8 : s < 256 ? 9 : s < 280 ? 7 : 8;
    build(literals, lengths, 288);
    memset(lengths, 5, 30);
    build(distances, lengths, 30);
}

/* One block's literals and matches from `at` on; where it ends, or `size` + 1 if it is damaged. */
static size_t copy_block(struct input *in, const u16 *literals, const u16 *distances, u8 *out, size_t at, size_t size) {
    for (;;) {
        int s = symbol(in, literals);
        if (s < 0 || s > 285 || is_over(in)) return size + 1;
        if (s == 256) return at;
        if (s < 256) {
            if (at == size) return size + 1;
            out[at++] = (u8)s;
            continue;
        }
        s -= 257;
        const int more = s < 8 || s == 28 ? 0 : (s >> 2) - 1;
        const size_t run = s == 28 ? 258 : s < 8 ? (size_t)s + 3 : (size_t)((4 + (s & 3)) << more) + 3 + take(in, more);
        const int d = symbol(in, distances), far = d < 4 ? 0 : (d >> 1) - 1;
        if (d < 0 || d > 29) return size + 1;
        const size_t back = d < 4 ? (size_t)d + 1 : (size_t)((2 + (d & 1)) << far) + 1 + take(in, far);
        if (back > at || run > size - at) return size + 1;
        for (size_t i = 0; i < run; i++, at++) out[at] = out[at - back];
    }
}

/* Is it `size` bytes, no more and no fewer? */
static int inflate(const u8 *data, size_t packed, u8 *out, size_t size, u16 *tables) {
    struct input in = {data, data + packed, 0, 0};
    size_t at = 0;
    for (int is_final = 0; !is_final;) {
        is_final = (int)take(&in, 1);
        const u32 kind = take(&in, 2);
        if (kind == 3 || is_over(&in)) return 0;
        if (!kind) {
            take(&in, in.num & 7);
            const u32 count = take(&in, 16), check = take(&in, 16);
            in.at -= in.num / 8, in.num = 0, in.bits = 0;
            if (count != (~check & 0xFFFF) || in.at > in.end || count > (size_t)(in.end - in.at) || count > size - at) return 0;
            memcpy(out + at, in.at, count);
            in.at += count, at += count;
            continue;
        }
        if (kind == 1) fixed_codes(tables, tables + (1 << MOST_BITS));
        else if (!read_codes(&in, tables, tables + (1 << MOST_BITS))) return 0;
        at = copy_block(&in, tables, tables + (1 << MOST_BITS), out, at, size);
        if (at > size) return 0;
    }
    return at == size;
}

static int unpack(const u8 *entry, struct bytes archive, const char *name, size_t most_bytes, struct bytes *found) {
    const u32 method = get16(entry + 10), start = get32(entry + 42);
    const size_t packed = get32(entry + 20), size = get32(entry + 24);
    if ((get16(entry + 8) & 1) || (method != 0 && method != 8) || (size_t)start + LOCAL_BYTES > archive.size)
        return refuse(TX8RT_CONTAINER, "%s is packed in a way that cannot be read", name);
    if (size > most_bytes) return refuse(TX8RT_CONTAINER, "%s has %zu bytes, more than %zu", name, size, most_bytes);
    const u8 *const local = archive.data + start;
    const size_t data = (size_t)start + LOCAL_BYTES + get16(local + 26) + get16(local + 28);
    if (memcmp(local, "PK\3\4", 4) || data > archive.size || packed > archive.size - data || (!method && packed != size))
        return refuse(TX8RT_CONTAINER, "%s lies outside of the file", name);
    u8 *const out = aligned_alloc(DATA_ALIGNMENT, (size + DATA_ALIGNMENT) / DATA_ALIGNMENT * DATA_ALIGNMENT);
    u16 *const tables = malloc(sizeof(u16) << (MOST_BITS + 1));
    int is_sound = out && tables;
    if (is_sound && !method) memcpy(out, archive.data + data, size);
    else if (is_sound) is_sound = inflate(archive.data + data, packed, out, size, tables);
    free(tables);
    if (!out || !is_sound || crc_of(out, size) != get32(entry + 16)) {
        free(out);
        return out ? refuse(TX8RT_CONTAINER, "%s is damaged", name) : refuse(TX8RT_MEMORY, "no memory for %zu bytes of %s", size, name);
    }
    out[size] = 0;
    *found = (struct bytes){out, size};
    return 0;
}

int read_member(struct bytes archive, const char *name, size_t most_bytes, struct bytes *found) {
    const size_t wanted = strlen(name);
    size_t end = archive.size < END_BYTES ? 0 : archive.size - END_BYTES;
    const size_t least = end > 0xFFFF ? end - 0xFFFF : 0;
    if (archive.size < END_BYTES) return refuse(TX8RT_CONTAINER, "a file of %zu bytes is no program", archive.size);
    while (memcmp(archive.data + end, "PK\5\6", 4))
        if (end-- == least) return refuse(TX8RT_CONTAINER, "the file is no zip, or it ends early");
    size_t at = get32(archive.data + end + 16);
    for (u32 left = get16(archive.data + end + 10); left--;) {
        if (at > end || end - at < ENTRY_BYTES || memcmp(archive.data + at, "PK\1\2", 4)) break;
        const u8 *const entry = archive.data + at;
        const size_t length = get16(entry + 28), rest = get16(entry + 30) + get16(entry + 32);
        if (length > end - at - ENTRY_BYTES) break;
        if (length == wanted && !memcmp(entry + ENTRY_BYTES, name, wanted)) return unpack(entry, archive, name, most_bytes, found);
        at += ENTRY_BYTES + length + rest;
    }
    return refuse(TX8RT_CONTAINER, "the file holds no %s", name);
}
