// SPDX-License-Identifier: Apache-2.0
/* Numbers, sizes and page names of the command line. */
#include <errno.h>
#include <stdlib.h>
#include <strings.h>

#include "rm_client.h"

bool parse_number(const char *text, uint64_t *value)
{
	return parse_numbers(text, value, 1) == 1;
}

/* 64K, 2M, 6G or bytes; advances text to what follows. */
bool parse_size(const char **text, uint64_t *size)
{
	static const char units[] = "KMGT";
	const char *unit;
	char *end;
	unsigned int shift;

	if (**text < '0' || **text > '9')
		return false;
	errno = 0;
	*size = strtoull(*text, &end, 0);
	if (errno != 0)
		return false;
	unit = *end ? strchr(units, *end & ~0x20) : NULL;
	if (unit) {
		shift = 10 * (unsigned int)(unit - units + 1);
		if (*size > UINT64_MAX >> shift)
			return false;
		*size <<= shift;
		end++;
	}
	*text = end;
	return true;
}

bool parse_page(const char *text, struct settings *settings)
{
	static const struct {
		const char *name;
		uint32_t page;
		uint32_t huge;
	} pages[] = {
		{ "default", NVOS32_ATTR_PAGE_SIZE_DEFAULT, 0 },
		{ "4k", NVOS32_ATTR_PAGE_SIZE_4KB, 0 },
		{ "big", NVOS32_ATTR_PAGE_SIZE_BIG, 0 },
		{ "64k", NVOS32_ATTR_PAGE_SIZE_BIG, 0 },
		{ "huge", NVOS32_ATTR_PAGE_SIZE_HUGE, NVOS32_ATTR2_PAGE_SIZE_HUGE_DEFAULT },
		{ "2m", NVOS32_ATTR_PAGE_SIZE_HUGE, NVOS32_ATTR2_PAGE_SIZE_HUGE_2MB },
		{ "512m", NVOS32_ATTR_PAGE_SIZE_HUGE, NVOS32_ATTR2_PAGE_SIZE_HUGE_512MB },
		{ "256g", NVOS32_ATTR_PAGE_SIZE_HUGE, NVOS32_ATTR2_PAGE_SIZE_HUGE_256GB },
	};
	size_t i;

	for (i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
		if (strcasecmp(text, pages[i].name) == 0) {
			settings->page = pages[i].page;
			settings->huge = pages[i].huge;
			return true;
		}
	}
	return false;
}

unsigned int parse_numbers(const char *text, uint64_t *numbers, unsigned int most)
{
	unsigned int count = 0;
	char *end;

	while (count < most && *text >= '0' && *text <= '9') {
		errno = 0;
		numbers[count++] = strtoull(text, &end, 0);
		if (errno != 0)
			return 0;
		if (*end == '\0')
			return count;
		if (*end != ':')
			return 0;
		text = end + 1;
	}
	return 0;
}
