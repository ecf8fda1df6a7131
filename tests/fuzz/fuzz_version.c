// SPDX-License-Identifier: Apache-2.0
/* Driver version strings, and lines with the layouts of versions that are not in the table. */
#include "fuzz.h"

#define ROW "999.50.01 %u "

/* The input as a version, and behind the words that begin a row. */
int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	char *version = malloc(bytes + 1), *rows = malloc(bytes + sizeof(ROW) + 16);
	const struct nv_abi *exact, *found;
	enum cgpu_abi_source source;
	struct nv_abi room;

	MUST(version && rows);
	memcpy(version, data, bytes);
	version[bytes] = 0;
	exact = cgpu_abi_find(version);
	/* A version that is known is its own nearest one. */
	if (exact)
		MUST(cgpu_abi_nearest(version) == exact);
	sprintf(rows + sprintf(rows, ROW, NV_ABI_ORDER), "%s", version);
	found = cgpu_abi_choose("999.50.01", rows, 0, &room, &source);
	MUST(found == NULL || (found == &room && source == CGPU_ABI_ROW));
	found = cgpu_abi_choose(version, version, 1, &room, &source);
	MUST(!exact || found == exact);
	free(version);
	free(rows);
	return 0;
}
