/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at processes of containers. Each can take as long as the container likes (examine.h), so each is made by a helper of
 * that container, and waited for no longer than its asker says, and without any lock that others need. A helper that has not
 * answered in time is killed. A helper that cannot be killed is left, and counts (stuck.h): a container that has its
 * share of these gets no helper, so that its calls fail. Other containers have helpers of their own.
 */
#ifndef CGPUD_LOOKS_H
#define CGPUD_LOOKS_H

#include <stdatomic.h>

#include "cgpu_core.h"
#include "events.h"
#include "examine.h"
#include "helper.h"
#include "processes.h"
#include "stuck.h"

#define LOOKS_MS 1000 /* that a thread of the container's own waits at most, for its turn and then for the answer */
#define LOOKS_SOON_MS 50 /* the same of threads that others need */
#define LOOKS_REST_MS 2000 /* that such threads ask nothing more of a container that has kept one waiting so long */
#define LOOKS_INSPECTIONS 256 /* at once, of filters */
#define LOOKS_CONTAINERS (2 * CGPU_MAX_CONTAINERS) /* live and removed ones */
#define LOOKS_PLACES (LOOKS_CONTAINERS + LOOKS_INSPECTIONS)

/* A container's helper, or that of one inspection. */
struct looks_place {
	pthread_mutex_t lock; /* while one look is under way */
	u32 slot; /* whose it is: as the asker's */
	u64 generation;
	struct helper helper;
	struct stuck_owner owner; /* of the helper */
	u64 serial; /* of the last request */
	u64 since; /* when that was made, in milliseconds of the monotonic clock; 0: it has been answered */
	u32 memories; /* numbers of the helper's memories in use, a bit each */
	atomic_ullong released; /* numbers that are to be closed, above them the instance of the helper */
	u64 rests; /* until then no thread that others need asks it */
	atomic_ullong crowded; /* until then no such thread waits for the lock */
	atomic_ullong restless; /* until then no such thread inspects filters of its container */
	atomic_ullong mappings_ns; /* processor time that all look_mappings() here have taken together */
};

struct looks {
	struct spawner spawner;
	struct cgpu_core *core;
	struct events *events;
	u32 inodes; /* 1: the kernel tells processes apart by inodes */
	struct looks_place at[LOOKS_PLACES];
	atomic_uint instances; /* of helpers, until now */
	struct stuck stuck;
	atomic_ullong late; /* looks that were given up */
};

/* The container whose processes are looked at, and the longest wait. */
struct asker {
	struct looks *looks;
	u32 slot; /* CGPU_ORPHANS: of a container that is gone, or of none (generation 0) */
	u64 generation;
	u32 wait_ms;
};

/* Memory of a thread's address space, which a helper has open. It ends with the helper. */
struct look_memory {
	struct looks_place *place; /* NULL: none */
	u32 instance; /* of the place's helper */
	u32 number;
	u32 held; /* 1: the helper has a copy of the call's file */
};

/* Files below /proc/TID that a helper opens. Their close waits for nobody. */
enum opened_file { LOOKS_MEMORY, LOOKS_MAPPINGS, LOOKS_PAGEMAP };

/* A call's file and its caller's memory. */
struct call_look {
	struct identity identity; /* in: of the file to be copied; out: what it is */
	u32 major; /* in: of the driver's nodes; only these, and the file of identity, have the rest filled in */
	struct look_memory memory;
	u32 copied; /* in, 1: a copy is wanted if it is the file of identity */
	int copy; /* -1: there is none */
	u32 bytes; /* in: how many are wanted; out: 0 where they cannot be read */
	u8 data[1024];
};

/* 0 or a negative errno. Before there are containers. */
int looks_open(struct looks *looks, struct cgpu_core *core, struct events *events);
void looks_close(struct looks *looks);
/* End the helpers of containers that are gone. */
void looks_tidy(struct looks *looks);

static inline struct asker asker_of(struct looks *looks, u32 slot, u64 generation)
{
	return (struct asker){ looks, slot, generation, LOOKS_MS };
}

/* For a thread that others need, too. */
static inline struct asker asker_soon(struct looks *looks, u32 slot, u64 generation)
{
	return (struct asker){ looks, slot, generation, LOOKS_SOON_MS };
}

/*
 * All of these: -ETIMEDOUT: there was no answer in time; -EAGAIN: too many of the container's helpers do not end; other
 * negative errno: nobody can tell. All other results are as in examine.h.
 */

int look_at_call(const struct asker *asker, s32 tid, int number, u64 address, struct call_look *call);
int look_at_file(const struct asker *asker, s32 tid, int number, struct identity *identity);
/* A copy of a descriptor of the pidfd's task, which has to lead to the file that was looked at. -EBADF: it leads nowhere, or
 * elsewhere. */
int look_copy(const struct asker *asker, int pidfd, int number, const struct identity *identity);
/* LOOKS_MEMORY: look_open_memory(). */
int look_open(const struct asker *asker, s32 tid, enum opened_file file);
int look_open_memory(const struct asker *asker, s32 tid, struct look_memory *memory);
/* Waits for nobody. */
void look_close_memory(struct look_memory *memory);
/* Copy between memory and ours: -EFAULT when not every byte could be moved, or there is another helper by now. */
int look_read(const struct asker *asker, const struct look_memory *memory, u64 address, void *data, size_t bytes);
/* Parts that are to be written, one after the other. */
struct part {
	u64 address;
	const void *data;
	size_t bytes;
};
int look_write(const struct asker *asker, struct look_memory *memory, const struct part *part, u32 count);
/* Have the helper close the copy that it has of the call's file, as a write does: before the call is answered, as the thread
 * may close its own descriptor then, and that must be the last close. */
void look_drop_copy(const struct asker *asker, struct look_memory *memory);
int look_lives(const struct asker *asker, int pagemap);
/* each must not look, and may have been called before a negative errno, for some or all. So with look_files(). */
int look_mappings(const struct asker *asker, int maps, mapping_fn each, void *ctx);
/* Nanoseconds of processor time that all look_mappings() at a container's processes have taken together. */
u64 looks_mappings_ns(const struct asker *asker);
s32 look_tgid(const struct asker *asker, int pidfd, s32 tid);
int look_same_files(const struct asker *asker, s32 tid, s32 other);
int look_same_file(const struct asker *asker, s32 tid, int number, int ours);
int look_has_file(const struct asker *asker, s32 tgid, int ours, int *number);
int look_files(const struct asker *asker, s32 tgid, void (*each)(void *ctx, const struct look_file *file), void *ctx);
/* Stands in place of a control group before the number of a process: what is looked at must have its namespaces. */
#define LOOK_BESIDE "beside "
/*
 * 1 when the seccomp filters of a process of a control group hold; 0 when they do not, and then it is killed; more errors as
 * with examine_filters(). By a helper of its own: a call of the process, which waits for a look, can keep it from standing still.
 * -EAGAIN: too many are under way, or one of its container has just kept a thread that others need waiting.
 */
int look_filters(const struct asker *asker, s32 pid, const char *cgroup);
int look_foreign(const struct asker *asker, s32 tgid, int number);
/* 1 while the thread is on its way to its end. */
int look_exiting(const struct asker *asker, s32 tid);
/* Start time, which tells a thread from others that get its number later; 0: it has ended, or nobody can tell. */
u64 look_started(const struct asker *asker, s32 tid);

static inline u32 look_mark(const struct asker *asker, s32 tid)
{
	u64 started = look_started(asker, tid);

	/* 0 means that it is not known. */
	return started && !(u32)started ? ~0u : (u32)started;
}

/* 1 when a process has ended, or another one has its number. mark 0: by the number alone. */
static inline int look_has_left(const struct asker *asker, s32 tgid, u32 mark)
{
	u32 now;

	if (process_has_ended(tgid))
		return 1;
	now = mark ? look_mark(asker, tgid) : 0;
	return now && now != mark;
}

#endif
