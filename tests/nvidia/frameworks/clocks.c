// SPDX-License-Identifier: Apache-2.0
/*
 * Preloaded where CUDA's runtime is to start on a simulated card. The runtime gives up where libcuda has no clock rates, and
 * libcuda asks the card's firmware for them by controls that no public header has. So libcuda's answer that there are none
 * becomes a rate of 0; nothing else is changed. A real card needs nothing of this.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 801, CLOCK_RATE = 13, MEMORY_CLOCK_RATE = 36, WITH_STATUS = 12000 };

typedef void *(*find_symbol)(void *handle, const char *name);
typedef int (*find_function)(const char *name, void **found, int version, uint64_t flags, void *status);
typedef int (*find_older)(const char *name, void **found, int version, uint64_t flags);
typedef int (*ask_attribute)(int *value, int attribute, int device);

static find_function function_2;
static find_older function_1;
static ask_attribute attribute_of_card;

static int attribute(int *value, int which, int device)
{
	int result = attribute_of_card(value, which, device);

	if (result != NOT_SUPPORTED || (which != CLOCK_RATE && which != MEMORY_CLOCK_RATE))
		return result;
	*value = 0;
	return SUCCESS;
}

static void replace(const char *name, int version, void **found);

static int get_2(const char *name, void **found, int version, uint64_t flags, void *status)
{
	int result = function_2(name, found, version, flags, status);

	if (result == SUCCESS)
		replace(name, version, found);
	return result;
}

static int get_1(const char *name, void **found, int version, uint64_t flags)
{
	int result = function_1(name, found, version, flags);

	if (result == SUCCESS)
		replace(name, version, found);
	return result;
}

/* Also of the functions that find functions: the runtime asks the one for the other. */
static void replace(const char *name, int version, void **found)
{
	if (!*found)
		return;
	if (strcmp(name, "cuDeviceGetAttribute") == 0) {
		attribute_of_card = (ask_attribute)*found;
		*found = (void *)attribute;
	} else if (strcmp(name, "cuGetProcAddress_v2") == 0 ||
		(strcmp(name, "cuGetProcAddress") == 0 && version >= WITH_STATUS)) {
		function_2 = (find_function)*found;
		*found = (void *)get_2;
	} else if (strcmp(name, "cuGetProcAddress") == 0) {
		function_1 = (find_older)*found;
		*found = (void *)get_1;
	}
}

void *dlsym(void *handle, const char *name)
{
	static find_symbol real;
	void *found;

	if (!real)
		real = (find_symbol)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
	found = real(handle, name);
	if (strncmp(name, "cu", 2) == 0)
		replace(name, 0, &found);
	return found;
}
