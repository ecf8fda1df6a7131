/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread behind a notification, and the file that its call names. The notification tells the thread by its number,
 * which another task may have by now. So everything is opened by the number first, then the notification is found
 * valid, and from then on only those descriptors are used.
 */
#ifndef CGPUD_TASK_H
#define CGPUD_TASK_H

#include "cgpu_core.h"
#include "device.h"
#include "looks.h"

struct cgpud;
struct in_flight;

#define TASK_CACHE 64

/* Threads that one worker has lately served. A pidfd names its thread until that is reaped, and the
 * number is given to no other task before: no entry can mean the wrong one. Only for one task at a time: to find a
 * place for a second may close the first one's pidfd. */
struct task_cache {
	struct {
		s32 tid; /* 0: free */
		s32 tgid;
		int pidfd;
	} at[TASK_CACHE];
};

struct task {
	struct asker asker;
	struct task_cache *cache; /* NULL: its pidfd is its own */
	s32 tid;
	s32 tgid; /* 0 until task_open() */
	int pidfd; /* of the thread, in the cache; or our own, of its process, on older kernels; -1 */
	struct look_memory memory; /* of its address space */
	int number; /* of the descriptor that the call is made on */
	int file; /* our copy of that; -1 until task_copy() */
	int target; /* and of one that the call names in its parameters; -1 */
	struct identity identity; /* of the descriptor's file, when it was last seen */
	u32 driver_node; /* 1: kind and gpu are set */
	enum cgpu_device kind;
	u32 gpu;
	struct call_look seen; /* with the first look at a call; seen.bytes 0: no memory was seen */
	u64 seen_at;
};

/* asker: of the container that it belongs to. */
void task_init(struct task *task, const struct asker *asker, struct task_cache *cache, s32 tid);
void task_cache_clear(struct task_cache *cache);
/* Identify a descriptor's file without a copy, and without asking the file's server. 0, or the negative errno with
 * which the call must fail. */
int task_inspect(struct cgpud *d, struct task *task, int fd);
/* Needs of an ioctl, if it is the driver's: the bytes at its argument's address, and a copy of its descriptor. */
struct call_wish {
	u64 address;
	u32 bytes;
	u32 copy;
};
/* The same of an ioctl, with its memory, and its needs as far as they can be had. */
int task_inspect_call(struct cgpud *d, struct task *task, int fd, const struct call_wish *wish);
/* Forget the facts that the first look has seen, as they may have changed. */
void task_forget_seen(struct task *task);
/* The same of any descriptor of the task. 0 or a negative errno. */
int task_inspect_number(const struct task *task, int fd, struct identity *identity);
/* Open process and memory, for a call on one of the driver's nodes. 0, or the negative errno with which it must fail;
 * -ENOENT: the thread has ended. */
int task_open(struct cgpud *d, struct task *task);
int task_open_memory(struct task *task);
/* Copy between its memory and ours. 0 or a negative errno. */
int task_read(const struct task *task, u64 address, void *data, size_t bytes);
int task_write(struct task *task, const struct part *part, u32 count);
/* Read bytes, from the first look at the call if it has seen them. */
int task_read_call(const struct task *task, u64 address, void *data, size_t bytes);
/* Have a copy of the descriptor that was looked at. As above; -EBADF: it is no longer that. */
int task_copy(struct cgpud *d, struct task *task);
/* All of these but the memory, for a call that was notified earlier. 0: there is a copy, of one of the driver's nodes. */
int task_take(struct cgpud *d, struct task *task, int fd);
/* Before its call is answered: the thread may close its own descriptor then, and that must be the last close. */
void task_close_files(struct task *task);
void task_drop(struct task *task);

/*
 * The descriptor inside of a call that exports or imports. The engine copies it once, before it judges the call, and
 * gives the driver that copy, so that another thread changes nothing by a new file under the number.
 */

/* 1 when the file is the driver's control node. */
int target_is_control_node(struct cgpud *d, const struct identity *identity);
/* Look at call->descriptor for the core. 0, or the negative errno with which the call must fail; -ENOSPC: no more files
 * can be watched. */
int target_find(struct cgpud *d, struct in_flight *e, struct task *task);
/* Verdict on a call whose target_find() returns -ENOSPC, for all that was done about it. */
enum cgpu_verdict target_no_room(struct cgpud *d, struct in_flight *e);
/* Put the number of our copy, or of the caller's own descriptor again, where the driver looks for it. */
void target_put(const struct nv_abi *abi, struct in_flight *e, int descriptor);
/* Let go of our copy: its close may be the last one. */
void target_drop(struct task *task);
/* 1: an export. The same bytes may mean another file by now. */
int target_is_export(const struct nv_abi *abi, const struct in_flight *e);
/* 1: an export that failed because something was exported on the file before. */
int target_is_taken(const struct nv_abi *abi, const struct in_flight *e);

#endif
