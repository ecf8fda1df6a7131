// SPDX-License-Identifier: Apache-2.0
/* The driver version that the cards pretend to have. */
#include <stdio.h>

#include "sim.h"
#include "card_abi_rows.h"

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

bool version_say(struct sim *sim, const char *text)
{
	if (strlen(text) >= sizeof(sim->version))
		return false;
	snprintf(sim->version, sizeof(sim->version), "%s", text);
	return true;
}

/* A version that is not in the tables has the interface of the last one before it. */
bool version_select(struct sim *sim, const char *text)
{
	const struct nv_abi_version *known = NULL;
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
	if (text[end] != '\0' || major > UINT16_MAX || minor > UINT16_MAX || patch > UINT16_MAX)
		return false;
	for (i = 0; i < nv_abi_version_count && compare(&nv_abi_versions[i], major, minor, patch) <= 0; i++)
		known = &nv_abi_versions[i];
	if (!known)
		return false;
	sim->number =
		(struct nv_abi_version){ .major = major, .minor = minor, .patch = patch, .layout = known->layout };
	sim->abi = &nv_abi_layouts[known->layout];
	sim->card_abi = &card_abi_layouts[card_abi_of_version[known - nv_abi_versions]];
	snprintf(sim->version, sizeof(sim->version), "%s", text);
	return true;
}
