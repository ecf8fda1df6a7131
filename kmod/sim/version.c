// SPDX-License-Identifier: Apache-2.0
/* Which driver the cards pretend to have. */
#include <stdio.h>

#include "sim.h"

static int compare(const struct nv_abi_version *a, unsigned int major, unsigned int minor, unsigned int patch)
{
	if (a->major != major)
		return a->major < major ? -1 : 1;
	if (a->minor != minor)
		return a->minor < minor ? -1 : 1;
	if (a->patch != patch)
		return a->patch < patch ? -1 : 1;
	return 0;
}

bool version_at_least(const struct sim *sim, unsigned int major, unsigned int minor, unsigned int patch)
{
	return compare(&sim->number, major, minor, patch) >= 0;
}

bool version_select(struct sim *sim, const char *text)
{
	unsigned int major, minor, patch = 0, i;
	int end = -1;

	if (strlen(text) >= sizeof(sim->version))
		return false;
	if (sscanf(text, "%5u.%5u%n", &major, &minor, &end) != 2 || end < 0)
		return false;
	if (text[end] == '.') {
		int more = -1;

		if (sscanf(text + end, ".%5u%n", &patch, &more) != 1 || more < 0)
			return false;
		end += more;
	}
	if (text[end] != '\0')
		return false;
	for (i = 0; i < nv_abi_version_count; i++) {
		if (compare(&nv_abi_versions[i], major, minor, patch) == 0) {
			sim->number = nv_abi_versions[i];
			sim->abi = &nv_abi_layouts[nv_abi_versions[i].layout];
			snprintf(sim->version, sizeof(sim->version), "%s", text);
			return true;
		}
	}
	return false;
}
