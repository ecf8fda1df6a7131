// SPDX-License-Identifier: Apache-2.0
/* Driver version strings. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	char *version = malloc(bytes + 1);
	const struct nv_abi *exact;

	MUST(version);
	memcpy(version, data, bytes);
	version[bytes] = 0;
	exact = cgpu_abi_find(version);
	/* A version that is known is its own nearest one. */
	if (exact)
		MUST(cgpu_abi_nearest(version) == exact);
	else
		cgpu_abi_nearest(version);
	free(version);
	return 0;
}
