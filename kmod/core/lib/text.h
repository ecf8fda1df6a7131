/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Building short texts in a buffer of fixed size, and taking numbers out of text strictly. */
#ifndef CGPU_TEXT_H
#define CGPU_TEXT_H

#include "cgpu_types.h"

struct core_text {
	char *text;
	size_t bytes; /* of the buffer */
	size_t length; /* written so far, without a NUL */
	int full; /* something did not fit: nothing is written any more */
};

void core_text_start(struct core_text *out, char *text, size_t bytes);
/* Append whole or not at all. */
void core_text_bytes(struct core_text *out, const char *text, size_t length);
void core_text_string(struct core_text *out, const char *text);
void core_text_number(struct core_text *out, u64 number);
void core_text_signed(struct core_text *out, s64 number);
void core_text_hex(struct core_text *out, u32 number);
/* Append a text in which %s stands for a string, %u for a u32 and %llu for a number of 64 bits. */
__attribute__((format(printf, 2, 3))) void core_text_format(struct core_text *out, const char *format, ...);
void core_text_arguments(struct core_text *out, const char *format, va_list arguments);
/* Take back what was written after a length noted before. */
void core_text_cut(struct core_text *out, size_t length);

/* Decimal digits and nothing else, 1 to digits of them. 0 or -EINVAL. */
int core_parse_number(const char *text, size_t length, size_t digits, u64 *number);
int core_same(const char *text, size_t length, const char *word);
size_t core_string_length(const char *text, size_t bytes);
/* Copy a string into a field of fixed size, cutting it; the rest becomes zeros. */
void core_string_copy(char *to, size_t bytes, const char *from, size_t length);

#endif
