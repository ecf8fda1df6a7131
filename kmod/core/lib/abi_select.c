// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* From a driver's version string to the layouts of its structs. */
#include "cgpu_core.h"
#include "lib/text.h"

#define PARTS 3

/* "580.142" or "580.65.06", nothing before or after. The last part is 0 where there are two. */
static int version_parse(const char *version, u32 part[PARTS])
{
	size_t from = 0, at = 0;
	u32 count = 0;
	u64 number;

	for (;; at++) {
		char c = at < 20 ? version[at] : 'x';

		if (c >= '0' && c <= '9')
			continue;
		if ((c != '.' && c != 0) || count == PARTS)
			return -EINVAL;
		if (core_parse_number(version + from, at - from, 5, &number) || number > 0xffff)
			return -EINVAL;
		part[count++] = (u32)number;
		from = at + 1;
		if (c == 0)
			break;
	}
	if (count < 2)
		return -EINVAL;
	if (count == 2)
		part[2] = 0;
	return 0;
}

/* Below, at or above zero, as the table's version is older, the same or newer. */
static int version_compare(const struct nv_abi_version *known, const u32 part[PARTS])
{
	if (known->major != part[0])
		return known->major < part[0] ? -1 : 1;
	if (known->minor != part[1])
		return known->minor < part[1] ? -1 : 1;
	if (known->patch != part[2])
		return known->patch < part[2] ? -1 : 1;
	return 0;
}

static const struct nv_abi_version *entry_of(const char *version, int exact)
{
	const struct nv_abi_version *found = NULL;
	u32 part[PARTS];
	u32 i;

	if (version == NULL || version_parse(version, part))
		return NULL;
	/* The table is sorted, so the last one that is not newer is the nearest. */
	for (i = 0; i < nv_abi_version_count; i++) {
		int order = version_compare(&nv_abi_versions[i], part);

		if (order == 0 || (order < 0 && !exact))
			found = &nv_abi_versions[i];
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
