// SPDX-License-Identifier: Apache-2.0
/*
 * Makes and maps the memory file that holds the core's state, the calls in flight and the memory that UVM maps: a new
 * file, the file of an engine that ended, or a copy of another engine's file.
 */
#define _GNU_SOURCE
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cgpud.h"
#include "descriptors.h"
#include "in_flight.h"
#include "external.h"

#define HEADER_MAGIC 0x64757067636d656dull
#define HEADER_VERSION 1u
#define HEADER_BYTES 4096u

struct header {
	u64 magic;
	u32 version;
	u32 call_bytes; /* sizeof(struct in_flight) */
	u32 calls; /* IN_FLIGHT_MAX */
	u32 external_bytes; /* sizeof(struct external_store) */
	u64 core_bytes; /* cgpu_state_bytes() */
	struct cgpu_latency latency[CGPU_OUTCOMES]; /* durations of calls by their outcome */
	u32 unsure; /* 1: the outcome of a call is not known. The rest of the page is 0. */
};
_Static_assert(sizeof(struct header) <= HEADER_BYTES, "the core's state begins behind the header's page");

static size_t whole_pages(u64 bytes)
{
	return (bytes + HEADER_BYTES - 1) & ~(size_t)(HEADER_BYTES - 1);
}

static size_t file_bytes(u64 core_bytes)
{
	return HEADER_BYTES + whole_pages(core_bytes) + sizeof(struct in_flight) * IN_FLIGHT_MAX +
		sizeof(struct external_store);
}

/* The core's state may have another layout, so core_bytes only has to be enough for its magic and version. */
static int header_matches(const struct header *h)
{
	return h->magic == HEADER_MAGIC && h->version == HEADER_VERSION && h->calls == IN_FLIGHT_MAX &&
		h->call_bytes == sizeof(struct in_flight) && h->core_bytes >= HEADER_BYTES &&
		h->external_bytes == sizeof(struct external_store);
}

static const struct cgpu_state *core_of(const struct header *h)
{
	return (const struct cgpu_state *)((const u8 *)h + HEADER_BYTES);
}

static struct in_flight *calls_of(const struct header *h)
{
	return (struct in_flight *)((u8 *)h + HEADER_BYTES + whole_pages(h->core_bytes));
}

static void header_fill(struct header *h)
{
	h->version = HEADER_VERSION;
	h->calls = IN_FLIGHT_MAX;
	h->call_bytes = sizeof(struct in_flight);
	h->core_bytes = cgpu_state_bytes();
	h->external_bytes = sizeof(struct external_store);
	h->magic = HEADER_MAGIC;
}

/* An engine that died may have left a call half-written. Lengths and indices beyond the limits make a call invalid. */
static int in_flight_sane(const struct in_flight *e)
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

static void calls_recover(struct in_flight_table *x)
{
	u32 i, kept = 0;

	for (i = 0; i < IN_FLIGHT_MAX; i++) {
		struct in_flight *e = &x->at[i];

		if (!in_flight_sane(e))
			e->stage = STAGE_FREE;
		e->index = i;
		in_flight_rebase(e);
		if (e->stage != STAGE_KEPT && e->stage != STAGE_SENT)
			continue;
		x->thread[i] = (s32)e->notif.pid;
		/* The counters of the engine before are lost, and so the number of calls that the container has made since. */
		e->counted = COUNT_UNKNOWN;
		if (e->age >= x->ages)
			x->ages = e->age + 1;
		kept += e->stage == STAGE_KEPT;
	}
	atomic_store(&x->kept, kept);
}

/* Map another engine's memory file for reading. -ESTALE: this engine can neither use nor convert the file. */
static int map_from(struct in_flight_table *x, int fd)
{
	struct header *header;
	struct stat st;

	if (fstat(fd, &st) < 0 || st.st_size < (off_t)HEADER_BYTES)
		return -ESTALE;
	header = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (header == MAP_FAILED)
		return -errno;
	x->from = header;
	x->from_bytes = (size_t)st.st_size;
	if (!header_matches(header) || (u64)st.st_size != file_bytes(header->core_bytes) ||
		cgpu_state_converts(core_of(header)) == CGPU_STATE_FOREIGN)
		return -ESTALE;
	return 0;
}

static void unmap_from(struct in_flight_table *x)
{
	if (x->from)
		munmap(x->from, x->from_bytes);
	x->from = NULL;
}

static int map_own(struct in_flight_table *x)
{
	x->bytes = file_bytes(cgpu_state_bytes());
	x->map = mmap(NULL, x->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, x->fd, 0);
	if (x->map == MAP_FAILED) {
		x->map = NULL;
		return -errno;
	}
	x->at = (struct in_flight *)((u8 *)x->map + HEADER_BYTES + whole_pages(cgpu_state_bytes()));
	x->latency = ((struct header *)x->map)->latency;
	x->unsure = &((struct header *)x->map)->unsure;
	return 0;
}

static int make_own(struct in_flight_table *x)
{
	u32 i;
	int r;

	x->fd = memfd_create("cgpud-state", MFD_CLOEXEC);
	if (x->fd < 0 || ftruncate(x->fd, (off_t)file_bytes(cgpu_state_bytes())) < 0)
		return -errno;
	r = map_own(x);
	for (i = 0; r == 0 && i < IN_FLIGHT_MAX; i++)
		x->at[i].index = i;
	return r;
}

static void table_init(struct in_flight_table *x)
{
	memset(x, 0, sizeof(*x));
	pthread_mutex_init(&x->lock, NULL);
	pthread_cond_init(&x->changed, NULL);
	x->fd = -1;
}

/* Make a file with a state as cgpu_state_take_over() needs it. */
static int make_copy(struct in_flight_table *x)
{
	int r = make_own(x);

	/* The key 0 is for now: cgpu_state_take_over() copies the other state's key. */
	if (r == 0)
		cgpu_state_init(state_file_state(x), 0);
	return r;
}

/* Copy a call that passed in_flight_sane(), and of its buffers only the bytes in use, which are few as a rule. */
static void copy_call(struct in_flight *to, const struct in_flight *from)
{
	u32 n;

	memcpy(to, from, offsetof(struct in_flight, copy));
	for (n = 0; from->stage != STAGE_RECEIVING && n <= from->call.segments; n++) {
		memcpy(to->copy[n], from->copy[n], in_flight_bytes(from, n));
		memcpy(to->before[n], from->before[n], in_flight_bytes(from, n));
	}
}

/* Fill the own file with a converted copy of the one before. */
static int convert(struct in_flight_table *x)
{
	struct header *header = x->from;
	const struct in_flight *calls = calls_of(header);
	const struct external_store *mapped = (const struct external_store *)(calls + IN_FLIGHT_MAX);
	struct external_store *own = state_file_external(x);
	u32 i;

	if (cgpu_state_take_over(state_file_state(x), core_of(header)) < 0)
		return -ESTALE;
	for (i = 0; i < IN_FLIGHT_MAX; i++) {
		if (in_flight_sane(&calls[i]))
			copy_call(&x->at[i], &calls[i]);
	}
	memcpy(x->latency, header->latency, sizeof(header->latency));
	*x->unsure = header->unsure;
	memcpy(own, mapped, offsetof(struct external_store, map));
	if (own->used > CGPU_MAX_OBJECTS)
		return -ESTALE;
	memcpy(own->map, mapped->map, own->used * sizeof(own->map[0]));
	x->recovered = 1;
	calls_recover(x);
	header_fill(x->map);
	/* x->from stays mapped: unmapping takes as long as the copy did, and callers wait. */
	return 0;
}

int cgpud_state_check(s32 state_fd)
{
	struct in_flight_table x;
	int r;

	table_init(&x);
	r = map_from(&x, state_fd);
	unmap_from(&x);
	state_file_close(&x);
	return r;
}

/* Go on with the file of an engine that ended: in place if the layout is this core's, else with a converted copy. */
static int take_up(struct in_flight_table *x, int fd)
{
	int r = map_from(x, fd);

	if (r < 0)
		return r;
	if (cgpu_state_converts(core_of(x->from)) != CGPU_STATE_OWN) {
		r = make_copy(x);
		return r < 0 ? r : convert(x);
	}
	unmap_from(x);
	x->fd = fd;
	r = map_own(x);
	x->recovered = r == 0;
	if (r == 0 && cgpu_state_recover(state_file_state(x)) < 0)
		r = -ESTALE;
	if (r == 0)
		calls_recover(x);
	return r;
}

int state_file_open(struct in_flight_table *x, int fd)
{
	int r;

	table_init(x);
	r = fd >= 0 ? take_up(x, fd) : make_own(x);
	if (x->fd != fd)
		close_any(fd);
	if (r == 0 && fd < 0)
		header_fill(x->map);
	return r;
}

void state_file_close(struct in_flight_table *x)
{
	unmap_from(x);
	if (x->map)
		munmap(x->map, x->bytes);
	close_one(&x->fd);
	x->map = NULL;
	pthread_cond_destroy(&x->changed);
	pthread_mutex_destroy(&x->lock);
}

struct cgpu_state *state_file_state(const struct in_flight_table *x)
{
	return (struct cgpu_state *)((u8 *)x->map + HEADER_BYTES);
}

struct external_store *state_file_external(const struct in_flight_table *x)
{
	return (struct external_store *)(x->at + IN_FLIGHT_MAX);
}
