// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* From a driver's version string to the layouts of its structs. */
#include "cgpu_core.h"
#include "lib/text.h"

#define NUMBERS (sizeof(struct nv_abi) / sizeof(u16))

/* "580.142" or "580.65.06", nothing before or after. The last part is 0 where there are two. Greater for newer ones. */
static int version_parse(const char *text, size_t bytes, u64 *version)
{
	size_t from = 0, at = 0;
	u32 parts = 0;
	u64 number;

	*version = 0;
	for (;; at++) {
		char c = at == bytes ? 0 : at < 20 ? text[at] : 'x';

		if (c >= '0' && c <= '9')
			continue;
		if ((c != '.' && at != bytes) || parts == 3)
			return -EINVAL;
		if (core_parse_number(text + from, at - from, 5, &number) || number > 0xffff)
			return -EINVAL;
		*version |= number << 16 * (2 - parts++);
		from = at + 1;
		if (at == bytes)
			return parts < 2 ? -EINVAL : 0;
	}
}

static const struct nv_abi_version *entry_of(const char *version, int exact)
{
	const struct nv_abi_version *found = NULL;
	u64 wanted;
	u32 i;

	if (version == NULL || version_parse(version, strlen(version), &wanted))
		return NULL;
	/* The table is sorted, so the last one that is not newer is the nearest. */
	for (i = 0; i < nv_abi_version_count; i++) {
		const struct nv_abi_version *row = &nv_abi_versions[i];
		u64 known = (u64)row->major << 32 | (u64)row->minor << 16 | row->patch;

		if ((known == wanted && row->verified) || (known <= wanted && !exact))
			found = row;
	}
	return found;
}

const struct nv_abi_version *cgpu_abi_nearest_version(const char *version)
{
	return entry_of(version, 0);
}

static const struct nv_abi *layouts_of(const char *version, int exact)
{
	const struct nv_abi_version *entry = entry_of(version, exact);

	return entry ? &nv_abi_layouts[entry->layout] : NULL;
}

const struct nv_abi *cgpu_abi_find(const char *version)
{
	return layouts_of(version, 1);
}

const struct nv_abi *cgpu_abi_nearest(const char *version)
{
	return layouts_of(version, 0);
}

/* "VERSION ORDER NUMBER ...", with one space between two: every number of struct nv_abi as this build has them. */
static int read_row(const char *line, const char *end, u64 wanted, struct nv_abi *row)
{
	u16 *numbers = (u16 *)row;
	const char *word;
	u64 number;
	u32 i;

	for (i = 0; line <= end; i++, line++) {
		for (word = line; line < end && *line != ' ';)
			line++;
		if (i == 0 ? version_parse(word, (size_t)(line - word), &number) :
			     core_parse_number(word, (size_t)(line - word), 10, &number))
			return -EINVAL;
		if ((i == 0 && number != wanted) || (i == 1 && number != NV_ABI_ORDER))
			return -EINVAL;
		if (i < 2)
			continue;
		if (i - 2 >= NUMBERS || number > 0xffff)
			return -EINVAL;
		numbers[i - 2] = (u16)number;
	}
	return i == NUMBERS + 2 ? 0 : -EINVAL;
}

static int find_row(const char *version, const char *rows, struct nv_abi *row)
{
	const char *end = rows;
	u64 wanted;
	int r = -ENOENT;

	if (rows == NULL || version_parse(version, strlen(version), &wanted))
		return r;
	do {
		for (rows = end; *end && *end != '\n';)
			end++;
		r = read_row(rows, end, wanted, row);
	} while (r && *end++);
	return r;
}

const struct nv_abi *cgpu_abi_choose(
	const char *version, const char *rows, int nearest, struct nv_abi *room, enum cgpu_abi_source *source)
{
	const struct nv_abi *found = cgpu_abi_find(version);

	*source = CGPU_ABI_TABLE;
	if (found)
		return found;
	*source = CGPU_ABI_ROW;
	if (find_row(version, rows, room) == 0)
		return room;
	*source = CGPU_ABI_NEAREST;
	return nearest ? cgpu_abi_nearest(version) : NULL;
}
