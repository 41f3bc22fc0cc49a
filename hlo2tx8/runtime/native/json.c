/* JSON texts, as values in one table. */
#include <locale.h>
#include <stdlib.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

#include "internal.h"

#define MOST_DEPTH 64

static void skip(struct json *j) {
    while (j->text < j->end && strchr(" \t\r\n", *j->text) && *j->text) j->text++;
}

static int is_next(struct json *j, char c) {
    skip(j);
    if (j->text == j->end || *j->text != c) return 0;
    j->text++;
    return 1;
}

/* The number of a new value, or -1. */
static int add(struct json *j, enum json_kind kind) {
    if (j->num == j->room) {
        if (j->room > 1 << 28) return -1;
        const int room = j->room ? 2 * j->room : 1024;
        struct value *const more = realloc(j->values, (size_t)room * sizeof *more);
        if (!more) return -1;
        j->values = more, j->room = room;
    }
    j->values[j->num] = (struct value){.kind = kind, .text = j->text};
    return j->num++;
}

static int parse_string(struct json *j) {
    const int at = add(j, JSON_STRING);
    if (at < 0) return -1;
    while (j->text < j->end && *j->text != '"') {
        if ((u8)*j->text < 32) return -1;
        if (*j->text == '\\' && ++j->text == j->end) return -1;
        j->text++;
    }
    if (j->text == j->end) return -1;
    j->values[at].size = (size_t)(j->text++ - j->values[at].text);
    return 0;
}

static int parse_word(struct json *j) {
    static const struct {
        const char *text;
        enum json_kind kind;
    } WORDS[] = {{"null", JSON_NULL}, {"false", JSON_FALSE}, {"true", JSON_TRUE}};
    for (int i = 0; i < COUNT_OF(WORDS); i++) {
        const size_t size = strlen(WORDS[i].text);
        if ((size_t)(j->end - j->text) >= size && !memcmp(j->text, WORDS[i].text, size)) {
            if (add(j, WORDS[i].kind) < 0) return -1;
            j->text += size;
            return 0;
        }
    }
    const int at = add(j, JSON_NUMBER);
    if (at < 0) return -1;
    while (j->text < j->end && *j->text && strchr("+-.0123456789eE", *j->text)) j->text++;
    j->values[at].size = (size_t)(j->text - j->values[at].text);
    return j->values[at].size ? 0 : -1;
}

static int parse_value(struct json *j, int depth) {
    skip(j);
    const int at = j->num;
    int failed;
    if (is_next(j, '"')) failed = parse_string(j);
    else if (j->text < j->end && (*j->text == '[' || *j->text == '{')) {
        const int is_map = *j->text++ == '{';
        failed = depth >= MOST_DEPTH || add(j, is_map ? JSON_MAP : JSON_LIST) < 0;
        int count = 0;
        for (int is_first = 1; !failed && !is_next(j, is_map ? '}' : ']'); is_first = 0) {
            failed = !is_first && !is_next(j, ',');
            if (!failed && is_map) failed = !is_next(j, '"') || parse_string(j) || (j->values[j->num - 1].next = j->num, !is_next(j, ':'));
            if (!failed) failed = parse_value(j, depth + 1);
            count += 1 + is_map;
        }
        if (!failed) j->values[at].count = count;
    } else failed = parse_word(j);
    if (!failed) j->values[at].next = j->num;
    return failed ? -1 : 0;
}

int parse_json(struct json *j, const char *text, size_t size) {
    *j = (struct json){.text = text, .end = text + size};
    if (parse_value(j, 0)) return -1;
    skip(j);
    return j->text == j->end ? 0 : -1;
}

int member_of(const struct json *j, int map, const char *key) {
    if (map < 0 || j->values[map].kind != JSON_MAP) return -1;
    int at = map + 1, found = -1;
    for (int i = 0; i < j->values[map].count; i += 2) {
        const struct value *const name = &j->values[at];
        if (name->size == strlen(key) && !memcmp(name->text, key, name->size)) found = at + 1; /* the last one counts, as in Python */
        at = j->values[at + 1].next;
    }
    return found;
}

int item_of(const struct json *j, int list, int number) {
    if (list < 0 || j->values[list].kind != JSON_LIST || number < 0 || number >= j->values[list].count) return -1;
    int at = list + 1;
    while (number--) at = j->values[at].next;
    return at;
}

int integer_of(const struct json *j, int value, i64 least, i64 most, i64 *found) {
    if (value < 0 || j->values[value].kind != JSON_NUMBER) return -1;
    const char *text = j->values[value].text, *const end = text + j->values[value].size;
    const int is_negative = *text == '-';
    u64 sum = 0;
    text += is_negative;
    if (text == end) return -1;
    for (; text < end; text++) {
        if (*text < '0' || *text > '9' || sum > (u64)INT64_MAX / 10) return -1;
        sum = sum * 10 + (u64)(*text - '0');
    }
    if (sum > INT64_MAX) return -1;
    *found = is_negative ? -(i64)sum : (i64)sum;
    return *found < least || *found > most ? -1 : 0;
}

double number_of(const struct json *j, int value) {
    if (value < 0 || j->values[value].kind != JSON_NUMBER || j->values[value].size > 63) return NAN;
    char text[64] = {0}, *end;
    memcpy(text, j->values[value].text, j->values[value].size);
    const locale_t plain = newlocale(LC_ALL_MASK, "C", 0), before = uselocale(plain); /* where the point is a comma, it is none here */
    const double found = strtod(text, &end);
    uselocale(before);
    if (plain) freelocale(plain);
    return *end || !plain ? NAN : found;
}

/* Four digits; -1 if they are none. */
static i64 hex(const char *text, const char *end) {
    i64 found = 0;
    for (int i = 0; i < 4; i++, text++) {
        const char *const digits = "0123456789abcdef", *const digit = text < end && *text ? strchr(digits, *text | 32) : NULL;
        if (!digit) return -1;
        found = found << 4 | (digit - digits);
    }
    return found;
}

char *string_of(const struct json *j, int value) {
    if (value < 0 || j->values[value].kind != JSON_STRING) return NULL;
    const char *text = j->values[value].text, *const end = text + j->values[value].size;
    char *const found = malloc(j->values[value].size + 1), *out = found;
    while (found && text < end) {
        if (*text != '\\') {
            *out++ = *text++;
            continue;
        }
        const char *const plain = strchr("\"\"\\\\//b\bf\fn\nr\rt\t", text[1]);
        i64 code = text[1] == 'u' ? hex(text + 2, end) : -1;
        text += code < 0 ? 2 : 6;
        if (code >= 0xD800 && code < 0xDC00 && end - text >= 6 && text[0] == '\\' && text[1] == 'u') {
            code = 0x10000 + ((code - 0xD800) << 10) + ((hex(text + 2, end) - 0xDC00) & 0x3FF);
            text += 6;
        }
        if (code < 0) *out++ = plain && *plain ? plain[1] : '?';
        else if (code < 0x80) *out++ = (char)(code ? code : '?');
        else {
            const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
            *out++ = (char)((u8)"\0\xC0\xE0\xF0"[more] | code >> 6 * more);
            for (int i = more; i--;) *out++ = (char)(0x80 | (code >> 6 * i & 0x3F));
        }
    }
    if (found) *out = 0;
    return found;
}
