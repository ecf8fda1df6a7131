// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* From a driver's version string to the layouts of its structs. */
#include "cgpu_core.h"
#include "lib/text.h"

/* "580.142" or "580.65.06", nothing before or after. The last part is 0 where there are two. Greater for newer ones. */
static int version_parse(const char *text, u64 *version)
{
	size_t from = 0, at = 0;
	u32 parts = 0;
	u64 number;

	*version = 0;
	for (;; at++) {
		char c = at < 20 ? text[at] : 'x';

		if (c >= '0' && c <= '9')
			continue;
		if ((c != '.' && c != 0) || parts == 3)
			return -EINVAL;
		if (core_parse_number(text + from, at - from, 5, &number) || number > 0xffff)
			return -EINVAL;
		*version |= number << 16 * (2 - parts++);
		from = at + 1;
		if (c == 0)
			return parts < 2 ? -EINVAL : 0;
	}
}

static const struct nv_abi_version *entry_of(const char *version, int exact)
{
	const struct nv_abi_version *found = NULL;
	u64 wanted;
	u32 i;

	if (version == NULL || version_parse(version, &wanted))
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
