// SPDX-License-Identifier: Apache-2.0
/* Reads filters, each a file of the kernel's instructions, and says whether one of them holds: 1 or 0. */
#include <stdio.h>
#include <stdlib.h>

#include "filter.h"

int main(int argc, char **argv)
{
	static struct filter filters[FILTERS_MAX];
	const struct filter *all[FILTERS_MAX];
	u64 salt = strtoull(argv[1], NULL, 10);
	int i;

	for (i = 2; i < argc && i - 2 < FILTERS_MAX; i++) {
		struct filter *one = &filters[i - 2];
		FILE *file = fopen(argv[i], "re");

		if (!file)
			return 2;
		one->count = (u32)fread(one->code, sizeof(one->code[0]), BPF_MAXINSNS, file);
		fclose(file);
		all[i - 2] = one;
	}
	printf("%d\n", filters_hold(all, (u32)(i - 2), salt));
	return 0;
}
