/* SPDX-License-Identifier: Apache-2.0 */
/* Text functions and small helpers of the kernel that the module uses. */
#ifndef SHIM_STRING_H
#define SHIM_STRING_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define READ_ONCE(x) (x)
#define WRITE_ONCE(x, value) ((x) = (value))
#define min(a, b) ((a) < (b) ? (a) : (b))
#define min_t(type, a, b) ((type)(a) < (type)(b) ? (type)(a) : (type)(b))
#define swap(a, b)                     \
	do {                           \
		__typeof__(a) was = a; \
		(a) = (b);             \
		(b) = was;             \
	} while (0)

static inline void *memchr_inv(const void *start, int c, size_t bytes)
{
	const unsigned char *at = start;

	for (; bytes; at++, bytes--) {
		if (*at != (unsigned char)c)
			return (void *)at;
	}
	return NULL;
}

static inline void strscpy(char *to, const char *from, size_t bytes)
{
	strncpy(to, from, bytes - 1);
	to[bytes - 1] = 0;
}

#endif
