// SPDX-License-Identifier: Apache-2.0
/* Questions about containers' processes, with a function for each. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include "asking.h"
#include "clock.h"
#include "processes.h"

static struct look_under_way look_for(const struct asker *asker, enum look what, s32 tid, int number)
{
	return (struct look_under_way){
		.asker = asker, .request = { .what = what, .tid = tid, .number = number }, .given = -1
	};
}

/* The same with a descriptor of ours. */
static struct look_under_way look_with(const struct asker *asker, enum look what, s32 tid, int given)
{
	struct look_under_way look = look_for(asker, what, tid, 0);

	look.given = given;
	return look;
}

int look_at_call(const struct asker *asker, s32 tid, int number, u64 address, struct call_look *call)
{
	struct look_under_way look = look_for(asker, LOOK_CALL, tid, number);
	int r;

	look.request.address = address;
	look.request.bytes = call->bytes < sizeof(call->data) ? call->bytes : sizeof(call->data);
	look.request.identity = call->identity;
	look.request.major = call->major;
	look.request.copied = call->copied;
	look.opens_memory = 1;
	look.in = call->data;
	look.room = sizeof(call->data);
	r = make_look(&look, NULL, NULL);
	call->identity = look.answer.identity;
	call->bytes = r == 0 ? look.answer.bytes : 0;
	call->memory = look.opened_memory;
	call->copy = look.copy;
	return r;
}

int look_at_file(const struct asker *asker, s32 tid, int number, struct identity *identity)
{
	struct look_under_way look = look_for(asker, LOOK_FILE, tid, number);
	int r = make_look(&look, NULL, NULL);

	*identity = look.answer.identity;
	return r;
}

int look_copy(const struct asker *asker, int pidfd, int number, const struct identity *identity)
{
	struct look_under_way look = look_for(asker, LOOK_COPY, 0, number);
	int r;

	look.given = pidfd;
	look.request.identity = *identity;
	r = make_look(&look, NULL, NULL);
	return r < 0 ? r : look.opened < 0 ? -EMFILE : look.opened;
}

int look_open(const struct asker *asker, s32 tid, enum opened_file file)
{
	struct look_under_way look = look_for(asker, LOOK_OPEN, tid, (int)file);
	int r = make_look(&look, NULL, NULL);

	return r < 0 ? r : look.opened < 0 ? -EMFILE : look.opened;
}

int look_open_memory(const struct asker *asker, s32 tid, struct look_memory *memory)
{
	struct look_under_way look = look_for(asker, LOOK_OPEN, tid, LOOKS_MEMORY);
	int r;

	look.opens_memory = 1;
	r = make_look(&look, NULL, NULL);
	*memory = look.opened_memory;
	return r;
}

void look_close_memory(struct look_memory *memory)
{
	u64 known, instance = memory->instance;

	if (memory->place) {
		known = atomic_load(&memory->place->released);
		/* Another instance means that the memory has ended with its helper. */
		while (known >> 32 == instance &&
			!atomic_compare_exchange_weak(&memory->place->released, &known, known | 1ull << memory->number))
			;
	}
	memory->place = NULL;
}

int look_read(const struct asker *asker, const struct look_memory *memory, u64 address, void *data, size_t bytes)
{
	struct look_under_way look = look_for(asker, LOOK_READ, 0, 0);
	int r;

	look.memory = memory;
	if (!bytes)
		return 0;
	if (bytes > LOOK_DATA_MAX)
		return -EFAULT;
	look.request.address = address;
	look.request.bytes = (u32)bytes;
	look.in = data;
	look.room = bytes;
	r = make_look(&look, NULL, NULL);
	return r == 0 && look.answer.bytes != bytes ? -EFAULT : r;
}

/* Fills a message with parts, as many as there is room for; returns how many. */
static u32 fill_parts(struct look_under_way *look, u8 *data, const struct part *part, u32 count)
{
	size_t at = LOOK_PARTS_MAX * sizeof(struct look_part);
	struct look_part *head = (void *)data;
	u32 i;

	for (i = 0; i < count && i < LOOK_PARTS_MAX && part[i].bytes <= LOOK_DATA_MAX - at; i++) {
		head[i] = (struct look_part){ part[i].address, part[i].bytes };
		memcpy(data + at, part[i].data, part[i].bytes);
		at += part[i].bytes;
	}
	look->request.number = (s32)i;
	look->request.bytes = (u32)at;
	look->data = data;
	return i;
}

int look_write(const struct asker *asker, struct look_memory *memory, const struct part *part, u32 count)
{
	_Alignas(8) u8 data[LOOK_DATA_MAX];
	u32 done = 0, n;
	int r = 0;

	while (done < count && r == 0) {
		struct look_under_way look = look_for(asker, LOOK_WRITE, 0, 0);

		look.memory = memory;
		n = fill_parts(&look, data, part + done, count - done);
		r = n ? make_look(&look, NULL, NULL) : -EFAULT;
		done += n;
	}
	if (r == 0 && count)
		memory->held = 0;
	return r;
}

void look_drop_copy(const struct asker *asker, struct look_memory *memory)
{
	struct look_under_way look = look_for(asker, LOOK_DROP, 0, 0);

	look.memory = memory;
	/* A helper that does not answer is killed, or closes it next. */
	if (memory->place && memory->held)
		make_look(&look, NULL, NULL);
	memory->held = 0;
}

int look_lives(const struct asker *asker, int pagemap)
{
	struct look_under_way look = look_with(asker, LOOK_LIVES, 0, pagemap);

	return make_look(&look, NULL, NULL);
}

struct ranges {
	mapping_fn each;
	void *ctx;
};

static void give_ranges(void *ctx, const struct look_under_way *look)
{
	const struct ranges *ranges = ctx;
	const struct look_range *range = look->in;
	u32 i;

	for (i = 0; i < look->answer.bytes / sizeof(*range); i++)
		ranges->each(ranges->ctx, range[i].start, range[i].end);
}

int look_mappings(const struct asker *asker, int maps, mapping_fn each, void *ctx)
{
	struct look_range range[LOOK_DATA_MAX / sizeof(struct look_range)];
	struct look_under_way look = look_with(asker, LOOK_MAPPINGS, 0, maps);
	struct ranges ranges = { each, ctx };
	u64 begun = clock_ns_of(CLOCK_THREAD_CPUTIME_ID), taken;
	int r;

	look.in = range;
	look.room = sizeof(range);
	r = make_look(&look, give_ranges, &ranges);
	/* A helper that did not answer may have worked all the time. */
	taken = r == -ETIMEDOUT ? asker->wait_ms * 1000000ull : look.answer.taken_ns;
	atomic_fetch_add(&look.place->mappings_ns, clock_ns_of(CLOCK_THREAD_CPUTIME_ID) - begun + taken);
	return r;
}

u64 looks_mappings_ns(const struct asker *asker)
{
	return atomic_load(&asker->looks->at[asker->slot % CGPU_MAX_CONTAINERS].mappings_ns);
}

s32 look_tgid(const struct asker *asker, int pidfd, s32 tid)
{
	struct look_under_way look = look_for(asker, LOOK_TGID, tid, 0);
	s32 tgid = pidfd < 0 ? -ENOSYS : process_tgid(pidfd);

	return tgid > 0 || tgid == -ESRCH ? tgid : make_look(&look, NULL, NULL);
}

int look_same_files(const struct asker *asker, s32 tid, s32 other)
{
	struct look_under_way look = look_for(asker, LOOK_SAME_FILES, tid, other);

	return tid == other ? 1 : make_look(&look, NULL, NULL);
}

int look_same_file(const struct asker *asker, s32 tid, int number, int ours)
{
	struct look_under_way look = look_with(asker, LOOK_SAME_FILE, tid, ours);

	look.request.number = number;
	return make_look(&look, NULL, NULL);
}

int look_has_file(const struct asker *asker, s32 tgid, int ours, int *number)
{
	struct look_under_way look = look_with(asker, LOOK_FIND_FILE, tgid, ours);
	int r = make_look(&look, NULL, NULL);

	if (r == 1)
		*number = look.answer.number;
	return r;
}

struct files {
	void (*each)(void *ctx, const struct look_file *file);
	void *ctx;
};

static void give_files(void *ctx, const struct look_under_way *look)
{
	const struct files *files = ctx;
	const struct look_file *file = look->in;
	u32 i;

	for (i = 0; i < look->answer.bytes / sizeof(*file); i++)
		files->each(files->ctx, &file[i]);
}

int look_files(const struct asker *asker, s32 tgid, void (*each)(void *ctx, const struct look_file *file), void *ctx)
{
	struct look_file file[LOOK_DATA_MAX / sizeof(struct look_file)];
	struct look_under_way look = look_for(asker, LOOK_FILES, tgid, 0);
	struct files files = { each, ctx };

	look.in = file;
	look.room = sizeof(file);
	return make_look(&look, give_files, &files);
}

/* A process that cannot be stopped is not tried again at once by a thread that others need. */
int look_filters(const struct asker *asker, s32 pid, const char *cgroup)
{
	struct look_under_way look = look_for(asker, LOOK_FILTERS, pid, 0);
	struct looks_place *own = &asker->looks->at[asker->slot % CGPU_MAX_CONTAINERS];
	int soon = asker->wait_ms < LOOKS_MS, r;

	if (soon && clock_ms() < atomic_load(&own->restless))
		return -EAGAIN;
	look.data = cgroup;
	look.request.bytes = (u32)strlen(cgroup) + 1;
	r = make_look(&look, NULL, NULL);
	if (soon && r == -ETIMEDOUT)
		atomic_store(&own->restless, clock_ms() + LOOKS_REST_MS);
	return r;
}

int look_foreign(const struct asker *asker, s32 tgid, int number)
{
	struct look_under_way look = look_for(asker, LOOK_FOREIGN, tgid, number);

	return make_look(&look, NULL, NULL);
}

static int look_at_stat(const struct asker *asker, s32 tid, struct look_stat *stat)
{
	struct look_under_way look = look_for(asker, LOOK_STAT, tid, 0);
	int r;

	look.in = stat;
	look.room = sizeof(*stat);
	r = make_look(&look, NULL, NULL);
	return r == 0 && look.answer.bytes != sizeof(*stat) ? -EPROTO : r;
}

int look_exiting(const struct asker *asker, s32 tid)
{
	struct look_stat stat;
	int r = look_at_stat(asker, tid, &stat);

	return r < 0 ? r : stat.exiting != 0;
}

u64 look_started(const struct asker *asker, s32 tid)
{
	struct look_stat stat;
	u64 inode;

	if (asker->looks->inodes)
		return process_inode(tid, &inode) == 0 ? inode : 0;
	return look_at_stat(asker, tid, &stat) == 0 ? stat.started : 0;
}
