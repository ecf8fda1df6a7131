// SPDX-License-Identifier: Apache-2.0
/*
 * deep_bind plain|deep|namespace LIBRARY [WORD...]: has cgpu-probe as a library, and calls it
 *   plain      as any program does: what is preloaded comes first
 *   deep       with RTLD_DEEPBIND: the library's own libc comes first
 *   namespace  with dlmopen: a libc of its own, which never heard of what is preloaded
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void *load(const char *how, const char *path)
{
	if (strcmp(how, "namespace") == 0)
		return dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
	return dlopen(path, RTLD_NOW | (strcmp(how, "deep") == 0 ? RTLD_DEEPBIND : 0));
}

int main(int argc, char **argv)
{
	int (*probe)(int, char **);
	void *library = argc > 2 ? load(argv[1], argv[2]) : NULL, *symbol;

	symbol = library ? dlsym(library, "probe_main") : NULL;
	if (!symbol)
		return fprintf(stderr, "deep_bind: %s\n", dlerror()), 2;
	memcpy(&probe, &symbol, sizeof(probe));
	return probe(argc - 2, argv + 2);
}
