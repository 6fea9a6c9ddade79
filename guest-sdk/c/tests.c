/*
 * Tests of wasmill.h that run natively:
 *
 *     cc -std=c11 -g -fsanitize=address,undefined -o wasmill-tests guest-sdk/c/tests.c
 *     ./wasmill-tests
 */

#define WASMILL_IMPLEMENTATION
#include "wasmill.h"

#include <stdio.h>
#include <string.h>

static int failures;

#define CHECK(condition)                                                                              \
    do {                                                                                              \
        if (!(condition)) {                                                                           \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                   \
            failures++;                                                                               \
        }                                                                                             \
    } while (0)

/* A call of `rows` rows, as a host makes it. */
typedef struct example {
    wasmill_call call;
    wasmill_array result, row_errors;
} example;

static wasmill_call *call_of(example *example, uint64_t rows) {
    memset(example, 0, sizeof *example);
    example->call.size = sizeof example->call;
    example->call.rows = rows;
    example->call.result = &example->result;
    example->call.row_errors = &example->row_errors;
    return &example->call;
}

static void results_are_arrays(void) {
    example e;
    wasmill_call *call = call_of(&e, 19);
    int64_t *out = WASMILL_RESULT(int64_t, call);
    CHECK(out && (uintptr_t)out % 64 == 0);
    for (int row = 0; row < 19; row++) out[row] = row;
    CHECK(e.result.length == 19 && e.result.n_buffers == 2 && e.result.null_count == 0);
    CHECK(e.result.buffers[0] == NULL && e.result.buffers[1] == out);
    CHECK(wasmill_set_null(call, 3) && wasmill_set_null(call, 18));
    CHECK(e.result.null_count == 2);
    for (size_t row = 0; row < 19; row++)
        CHECK(wasmill_is_valid(&e.result, row) == (row != 3 && row != 18));

    call = call_of(&e, 9);
    uint8_t *bits = wasmill_result_bools(call);
    CHECK(bits != NULL);
    wasmill_set_bit(bits, 8);
    CHECK(!wasmill_bool_at(&e.result, 7) && wasmill_bool_at(&e.result, 8));
    wasmill_reset();
}

static void texts_are_written_row_by_row(void) {
    for (size_t guess = 0; guess < 2000; guess += 999) {
        example e;
        wasmill_call *call = call_of(&e, 100);
        wasmill_text_writer writer;
        wasmill_text_begin(&writer, call, guess);
        for (size_t row = 0; row < 100; row++) {
            for (size_t i = 0; i < row; i++) wasmill_text_append(&writer, "ab", 2);
            wasmill_text_end_row(&writer);
        }
        CHECK(wasmill_text_finish(&writer) == WASMILL_OK);
        CHECK(e.result.length == 100 && e.result.n_buffers == 3);
        for (size_t row = 0; row < 100; row++) {
            wasmill_text text = wasmill_text_at(&e.result, row);
            CHECK(text.len == 2 * row && (row == 0 || memcmp(text.bytes, "ab", 2) == 0));
        }
        wasmill_reset();
    }

    /* Too few rows and too many are the guest's mistake, not the host's to find. */
    for (int rows = 1; rows <= 3; rows += 2) {
        example e;
        wasmill_text_writer writer;
        wasmill_text_begin(&writer, call_of(&e, 2), 0);
        for (int row = 0; row < rows; row++) wasmill_text_end_row(&writer);
        CHECK(wasmill_text_finish(&writer) == WASMILL_ERROR);
        CHECK(strstr(e.call.message, rows == 1 ? "fewer rows" : "more rows") != NULL);
        CHECK(e.call.message_len == strlen(e.call.message));
    }
    wasmill_reset();
}

static void row_errors_are_collected(void) {
    example e;
    wasmill_call *call = call_of(&e, 1000);
    for (uint64_t row = 0; row < 1000; row += 3) {
        char message[40];
        snprintf(message, sizeof message, "row %d", (int)row);
        CHECK(wasmill_row_error(call, row, -(int32_t)row, message));
    }
    CHECK(e.row_errors.length == 334 && e.row_errors.n_children == 3 && e.row_errors.n_buffers == 1);
    for (size_t i = 0; i < 334; i++) {
        char message[40];
        snprintf(message, sizeof message, "row %d", (int)(3 * i));
        wasmill_text text = wasmill_text_at(e.row_errors.children[2], i);
        CHECK(WASMILL_VALUES(uint32_t, e.row_errors.children[0])[i] == 3 * i);
        CHECK(WASMILL_VALUES(int32_t, e.row_errors.children[1])[i] == -(int32_t)(3 * i));
        CHECK(text.len == strlen(message) && memcmp(text.bytes, message, text.len) == 0);
    }
    /* An empty message has a place, too. */
    call = call_of(&e, 1);
    CHECK(wasmill_row_error(call, 0, 0, "") && wasmill_text_at(e.row_errors.children[2], 0).len == 0);
    wasmill_reset();
}

static void results_of_several_calls_live_until_the_reset(void) {
    for (int round = 0; round < 10; round++) {
        example first, second;
        int64_t *a = WASMILL_RESULT(int64_t, call_of(&first, 20000));
        int64_t *b = WASMILL_RESULT(int64_t, call_of(&second, 20000));
        for (int row = 0; row < 20000; row++) a[row] = row, b[row] = -row;
        for (int row = 0; row < 20000; row++) CHECK(a[row] == row && b[row] == -row);
        /* From the second round on, one chunk holds all of it. */
        CHECK(round == 0 || (wasmill_chunks && !wasmill_chunks->next));
        wasmill_reset();
    }
    CHECK(wasmill_result_memory((size_t)3 << 30) == NULL);
}

static wasmill_json json_of(const char *text) {
    wasmill_json json = {text, text + strlen(text)};
    return json;
}

static void json_members_and_items_are_found(void) {
    wasmill_json args = json_of(
        " { \"a\" : [ 1 , {\"b\":\"]}\"}, [2,[3]] , \"\\\",\" ] ,\"b\":null,\"ab\": true , \"c\":-0 } ");
    wasmill_json value, item;
    bool yes = false;
    int64_t number = 7;
    CHECK(wasmill_json_member(args, "ab", &value) && wasmill_json_bool(value, &yes) && yes);
    CHECK(wasmill_json_member(args, "b", &value) && wasmill_json_is_null(value));
    CHECK(wasmill_json_member(args, "c", &value) && wasmill_json_int64(value, &number) && number == 0);
    CHECK(!wasmill_json_member(args, "d", &value));
    CHECK(wasmill_json_member(args, "a", &value));
    CHECK(wasmill_json_next(&value, &item) && wasmill_json_int64(item, &number) && number == 1);
    CHECK(wasmill_json_next(&value, &item) && wasmill_json_member(item, "b", &item));
    char *text = NULL;
    size_t len = 0;
    CHECK(wasmill_json_text(item, &text, &len) && len == 2 && strcmp(text, "]}") == 0);
    wasmill_free(text, len + 1, 1);
    CHECK(wasmill_json_next(&value, &item) && item.end - item.at == 7);
    CHECK(wasmill_json_next(&value, &item) && wasmill_json_text(item, &text, &len));
    CHECK(strcmp(text, "\",") == 0);
    wasmill_free(text, len + 1, 1);
    CHECK(!wasmill_json_next(&value, &item) && !wasmill_json_next(&value, &item));
    value = json_of("[]");
    CHECK(!wasmill_json_next(&value, &item));
}

/* What is cut short is refused or read in part, and nothing beyond its end is touched. */
static void json_may_end_anywhere(void) {
    const char *whole = "{\"a\":[1,\"x\\u00e9\\n\",{\"b\":-1.5e-7}],\"c\":\"d\"}";
    for (size_t len = 0; len <= strlen(whole); len++) {
        char *cut = (char *)malloc(len ? len : 1);
        memcpy(cut, whole, len);
        wasmill_json json = {cut, cut + len}, value, item;
        if (wasmill_json_member(json, "a", &value)) {
            while (wasmill_json_next(&value, &item)) {
                int64_t number;
                double real;
                char *text;
                size_t size;
                wasmill_json_int64(item, &number);
                wasmill_json_float64(item, &real);
                if (wasmill_json_text(item, &text, &size)) wasmill_free(text, size + 1, 1);
                if (wasmill_json_member(item, "b", &item)) wasmill_json_float64(item, &real);
            }
        }
        free(cut);
    }
}

static void whole_numbers_fit_or_are_refused(void) {
    static const struct {
        const char *text;
        bool fits;
        int64_t value;
    } cases[] = {
        {"0", true, 0}, {"-12", true, -12}, {"3.0", true, 3}, {"1e3", true, 1000}, {"0e99", true, 0},
        {"9223372036854775807", true, INT64_MAX}, {"-9223372036854775808", true, INT64_MIN},
        {"9223372036854775808", false, 0}, {"18446744073709551615", false, 0}, {"1e19", false, 0},
        {"1.5", false, 0}, {"1e-1", false, 0}, {"1e99999999999", false, 0}, {"", false, 0},
        {"-", false, 0}, {"1e", false, 0}, {"\"1\"", false, 0}, {"1x", false, 0}, {"null", false, 0},
        {"120e-1", true, 12}, {"1.0000000000000000000000001", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t value = 0;
        bool fits = wasmill_json_int64(json_of(cases[i].text), &value);
        CHECK(fits == cases[i].fits && value == cases[i].value);
        if (fits != cases[i].fits) fprintf(stderr, "  %s\n", cases[i].text);
    }
}

static void check_double(const char *text) {
    double value = 0, expected = strtod(text, NULL);
    bool read = wasmill_json_float64(json_of(text), &value);
    bool finite = expected - expected == 0;
    CHECK(read == finite && (!read || memcmp(&value, &expected, sizeof value) == 0));
    if (read != finite || (read && value != expected)) fprintf(stderr, "  %s: %a\n", text, value);
}

static void doubles_are_the_nearest(void) {
    static const char *const cases[] = {
        "0", "-0.0", "0.1", "1.5", "0.30000000000000004", "5e-324", "2.5e-324", "2.4703282292062327e-324",
        "2.4703282292062328e-324", "1e-400", "2.2250738585072011e-308", "2.2250738585072014e-308",
        "1.7976931348623157e308", "1.7976931348623158e308", "1.7976931348623159e308", "1e309", "1e999999",
        "9007199254740993", "9007199254740992.5", "123456789012345678901234567890", "1e22", "1e23",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_double(cases[i]);
    uint64_t seed = 1;
    for (int i = 0; i < 100000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint64_t bits = seed ^ seed >> 33;
        double value;
        char text[64];
        memcpy(&value, &bits, sizeof value);
        if (value - value == 0) {
            snprintf(text, sizeof text, "%.*g", 1 + (int)(seed >> 40) % 19, value);
            check_double(text);
        }
    }
}

static void texts_are_unescaped(void) {
    static const struct {
        const char *json;
        const char *text;
    } cases[] = {
        {"\"\"", ""}, {"\"a\\n\\t\\\"\\\\\\/\\b\\f\\r\"", "a\n\t\"\\/\b\f\r"},
        {"\"\\u0041\\u00e9\\u20AC\\ud83e\\uDD80\"", "A\xc3\xa9\xe2\x82\xac\xf0\x9f\xa6\x80"},
        {"\"\\ud83e\"", NULL}, {"\"\\ud83e\\u0041\"", NULL}, {"\"\\udd80\"", NULL}, {"\"\\x\"", NULL},
        {"\"\\u00g0\"", NULL}, {"\"\\u00\"", NULL}, {"12", NULL}, {"\"", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = NULL;
        size_t len = 0;
        bool read = wasmill_json_text(json_of(cases[i].json), &text, &len);
        CHECK(read == (cases[i].text != NULL));
        if (!read) continue;
        CHECK(len == strlen(cases[i].text) && strcmp(text, cases[i].text) == 0);
        wasmill_free(text, len + 1, 1);
    }
}

int main(void) {
    results_are_arrays();
    texts_are_written_row_by_row();
    row_errors_are_collected();
    results_of_several_calls_live_until_the_reset();
    json_members_and_items_are_found();
    json_may_end_anywhere();
    whole_numbers_fit_or_are_refused();
    doubles_are_the_nearest();
    texts_are_unescaped();
    /* The last chunk, so that leak checkers stay silent. */
    if (wasmill_chunks) wasmill_free(wasmill_chunks, wasmill_chunks->size, 64);
    if (failures) fprintf(stderr, "%d checks failed\n", failures);
    return failures != 0;
}
