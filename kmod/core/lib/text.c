// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
#include "lib/text.h"

void core_text_start(struct core_text *out, char *text, size_t bytes)
{
	out->text = text;
	out->bytes = bytes;
	out->length = 0;
	out->full = 0;
}

void core_text_bytes(struct core_text *out, const char *text, size_t length)
{
	if (out->full || length > out->bytes - out->length) {
		out->full = 1;
		return;
	}
	memcpy(out->text + out->length, text, length);
	out->length += length;
}

void core_text_string(struct core_text *out, const char *text)
{
	core_text_bytes(out, text, strlen(text));
}

void core_text_number(struct core_text *out, u64 number)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	core_text_bytes(out, digits + at, sizeof(digits) - at);
}

void core_text_signed(struct core_text *out, s64 number)
{
	if (number < 0)
		core_text_string(out, "-");
	core_text_number(out, number < 0 ? 0 - (u64)number : (u64)number);
}

void core_text_hex(struct core_text *out, u32 number)
{
	char digits[8];
	size_t at = sizeof(digits);

	do {
		digits[--at] = "0123456789abcdef"[number & 15];
		number >>= 4;
	} while (number);
	core_text_string(out, "0x");
	core_text_bytes(out, digits + at, sizeof(digits) - at);
}

void core_text_format(struct core_text *out, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	core_text_arguments(out, format, arguments);
	va_end(arguments);
}

void core_text_arguments(struct core_text *out, const char *format, va_list arguments)
{
	for (; *format; format++) {
		if (*format != '%') {
			core_text_bytes(out, format, 1);
		} else if (*++format == 's') {
			core_text_string(out, va_arg(arguments, const char *));
		} else if (*format == 'u') {
			core_text_number(out, va_arg(arguments, u32));
		} else {
			core_text_number(out, va_arg(arguments, unsigned long long));
			format += 2;
		}
	}
}

void core_text_cut(struct core_text *out, size_t length)
{
	out->length = length;
	out->full = 0;
}

int core_parse_number(const char *text, size_t length, size_t digits, u64 *number)
{
	u64 value = 0;
	size_t i;

	if (length == 0 || length > digits || length > 20)
		return -EINVAL;
	for (i = 0; i < length; i++) {
		u64 digit = (u64)(unsigned char)text[i] - '0';

		if (text[i] < '0' || text[i] > '9')
			return -EINVAL;
		if (value > (~0ull - digit) / 10)
			return -EINVAL;
		value = value * 10 + digit;
	}
	*number = value;
	return 0;
}

int core_same(const char *text, size_t length, const char *word)
{
	return length == strlen(word) && memcmp(text, word, length) == 0;
}

size_t core_string_length(const char *text, size_t bytes)
{
	size_t length = 0;

	while (length < bytes && text[length])
		length++;
	return length;
}

void core_string_copy(char *to, size_t bytes, const char *from, size_t length)
{
	if (length > bytes - 1)
		length = bytes - 1;
	memset(to, 0, bytes);
	memcpy(to, from, length);
}
