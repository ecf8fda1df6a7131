// SPDX-License-Identifier: Apache-2.0
/*
 * repeats --dev DIR: a thread repeats its own call to the last byte, after another thread has undone what that
 * did. Prints the status of every step; then holds what it has until the end of standard input.
 */
#include <pthread.h>

#include "rm_calls.h"

#define OBJECT 0x500u
#define BYTES (64ull << 20)

static void *other_allocates(void *arg)
{
	struct rm *rm = arg;
	uint8_t data[64] = { 0 }, params[256] = { 0 };

	memory_fill(rm, params, BYTES);
	alloc_fill(rm, data, DEVICE, OBJECT, NV01_MEMORY_LOCAL_USER, params);
	printf("other-alloc status=0x%x\n", alloc_call(rm, data));
	return NULL;
}

static void *other_frees(void *arg)
{
	struct rm *rm = arg;
	uint8_t data[64] = { 0 };

	free_fill(rm, data, OBJECT);
	printf("other-free status=0x%x\n", free_call(rm, data));
	return NULL;
}

static void by_another_thread(struct rm *rm, void *(*what)(void *))
{
	pthread_t thread;

	pthread_create(&thread, NULL, what, rm);
	pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	uint8_t data[64] = { 0 }, params[256] = { 0 }, again[64] = { 0 };
	struct rm rm;
	char line[16];

	if (argc < 3 || rm_open(&rm, argv[2]))
		return 1;
	setvbuf(stdout, NULL, _IONBF, 0);
	by_another_thread(&rm, other_allocates);
	free_fill(&rm, data, OBJECT);
	printf("free status=0x%x\n", free_call(&rm, data));
	by_another_thread(&rm, other_allocates);
	printf("free-again status=0x%x\n", free_call(&rm, data));
	/* Shows whether the handle is free. */
	memory_fill(&rm, params, BYTES);
	alloc_fill(&rm, again, DEVICE, OBJECT, NV01_MEMORY_LOCAL_USER, params);
	printf("alloc status=0x%x\n", alloc_call(&rm, again));
	by_another_thread(&rm, other_frees);
	printf("alloc-again status=0x%x\n", alloc_call(&rm, again));
	by_another_thread(&rm, other_frees);
	printf("done\n");
	return fgets(line, sizeof(line), stdin) && !line[0];
}
