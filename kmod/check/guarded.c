// SPDX-License-Identifier: Apache-2.0
/* Memory for structures, which shows when the driver reads or writes beside them. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

/* More than the largest structure, in whole pages. */
#define AREA (5u * 4096u)
#define FILLING 0xa5

bool guarded_make(struct guarded *guarded)
{
	u8 *area = mmap(NULL, AREA + 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*guarded = (struct guarded){ 0 };
	if (area == MAP_FAILED)
		return false;
	if (mprotect(area, AREA, PROT_READ | PROT_WRITE)) {
		munmap(area, AREA + 4096);
		return false;
	}
	*guarded = (struct guarded){ .area = area, .end = area + AREA };
	return true;
}

void guarded_drop(struct guarded *guarded)
{
	if (guarded->area)
		munmap(guarded->area, AREA + 4096);
	*guarded = (struct guarded){ 0 };
}

u8 *guarded_place(struct guarded *guarded, size_t bytes, size_t cut)
{
	guarded->placed = guarded->end - bytes + cut;
	memset(guarded->area, FILLING, AREA);
	memset(guarded->placed, 0, bytes - cut);
	return guarded->placed;
}

bool guarded_intact(const struct guarded *guarded)
{
	const u8 *at = guarded->area;

	while (at < guarded->placed && *at == FILLING)
		at++;
	return at == guarded->placed;
}
