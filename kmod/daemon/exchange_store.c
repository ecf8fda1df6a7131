// SPDX-License-Identifier: Apache-2.0
/* The memory file that holds the core's state, the exchanges and what UVM maps, made or taken up. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exchange.h"
#include "external.h"

#define HEADER_MAGIC 0x64757067636d656dull
#define HEADER_VERSION 5u
#define HEADER_BYTES 4096u

struct header {
	u64 magic;
	u32 version, exchange_bytes, exchanges, external_bytes;
	u64 core_bytes;
};

static size_t core_space(void)
{
	return (cgpu_state_bytes() + HEADER_BYTES - 1) & ~(size_t)(HEADER_BYTES - 1);
}

static int header_matches(const struct header *h)
{
	return h->magic == HEADER_MAGIC && h->version == HEADER_VERSION && h->exchanges == EXCHANGES_MAX &&
		h->exchange_bytes == sizeof(struct exchange) && h->core_bytes == cgpu_state_bytes() &&
		h->external_bytes == sizeof(struct external_store);
}

static void header_fill(struct header *h)
{
	h->version = HEADER_VERSION;
	h->exchanges = EXCHANGES_MAX;
	h->exchange_bytes = sizeof(struct exchange);
	h->core_bytes = cgpu_state_bytes();
	h->external_bytes = sizeof(struct external_store);
	h->magic = HEADER_MAGIC;
}

/* Addresses and lengths of an exchange left behind may be torn: only whole ones are believed. */
static int exchange_sane(const struct exchange *e)
{
	u32 i;

	if (e->stage <= STAGE_FREE || e->stage >= STAGES || !e->notif.id)
		return 0;
	if (e->stage == STAGE_RECEIVING)
		return 1;
	if (e->call.bytes > CGPU_SEGMENT_MAX || e->call.segments > CGPU_MAX_SEGMENTS)
		return 0;
	for (i = 0; i < e->call.segments; i++)
		if (e->call.segment[i].bytes > CGPU_SEGMENT_MAX || e->call.segment[i].parent > i)
			return 0;
	return 1;
}

/* Copies are addressed by pointers of the process before. */
void exchange_rebase(struct exchange *e)
{
	u32 i;

	e->call.top = e->copy[0];
	for (i = 0; i < CGPU_MAX_SEGMENTS; i++)
		e->call.segment[i].data = e->copy[1 + i];
}

static void exchanges_recover(struct exchanges *x)
{
	u32 i, kept = 0;

	for (i = 0; i < EXCHANGES_MAX; i++) {
		struct exchange *e = &x->at[i];

		if (!exchange_sane(e))
			e->stage = STAGE_FREE;
		e->index = i;
		exchange_rebase(e);
		if (e->stage != STAGE_KEPT && e->stage != STAGE_SENT)
			continue;
		x->thread[i] = (s32)e->notif.pid;
		/* What was counted since then is not known. */
		e->turn = TURN_UNKNOWN;
		if (e->age >= x->ages)
			x->ages = e->age + 1;
		kept += e->stage == STAGE_KEPT;
	}
	atomic_store(&x->kept, kept);
}

int exchanges_open(struct exchanges *x, int fd)
{
	struct header *header;
	struct stat st;
	u32 i;

	memset(x, 0, sizeof(*x));
	pthread_mutex_init(&x->lock, NULL);
	pthread_cond_init(&x->changed, NULL);
	x->bytes =
		HEADER_BYTES + core_space() + sizeof(struct exchange) * EXCHANGES_MAX + sizeof(struct external_store);
	x->recovered = fd >= 0;
	x->fd = fd >= 0 ? fd : memfd_create("cgpud-state", MFD_CLOEXEC);
	if (x->fd < 0 || (fd < 0 && ftruncate(x->fd, (off_t)x->bytes) < 0))
		return -errno;
	if (fstat(x->fd, &st) < 0 || (u64)st.st_size != x->bytes)
		return -ESTALE;
	x->map = mmap(NULL, x->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, x->fd, 0);
	if (x->map == MAP_FAILED) {
		x->map = NULL;
		return -errno;
	}
	header = x->map;
	x->at = (struct exchange *)((u8 *)x->map + HEADER_BYTES + core_space());
	if (x->recovered) {
		if (!header_matches(header))
			return -ESTALE;
		exchanges_recover(x);
		return 0;
	}
	for (i = 0; i < EXCHANGES_MAX; i++)
		x->at[i].index = i;
	header_fill(header);
	return 0;
}

void exchanges_close(struct exchanges *x)
{
	if (x->map)
		munmap(x->map, x->bytes);
	if (x->fd >= 0)
		close(x->fd);
	x->map = NULL;
	x->fd = -1;
	pthread_cond_destroy(&x->changed);
	pthread_mutex_destroy(&x->lock);
}

struct cgpu_state *exchanges_state(const struct exchanges *x)
{
	return (struct cgpu_state *)((u8 *)x->map + HEADER_BYTES);
}

struct external_store *exchanges_external(const struct exchanges *x)
{
	return (struct external_store *)(x->at + EXCHANGES_MAX);
}
