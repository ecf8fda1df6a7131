/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open files that memory was exported on, and their last close. No call tells a daemon of that close. But an
 * epoll instance holds no reference to a file, and the kernel takes the file's entry out with the last one. So there is an
 * epoll that no thread waits on: its entries carry the files' numbers, and a file that it lists no more is closed. The
 * epoll outlives the engine as the state does.
 */
#ifndef CGPUD_FILES_H
#define CGPUD_FILES_H

#include <pthread.h>

#include "cgpu_core.h"

#define FILES_MAX 1024
#define FILES_SHARE 256 /* that one container may have watched */

struct files_gone {
	u64 file;
	u64 since; /* milliseconds of the monotonic clock */
};

struct files {
	pthread_mutex_t lock;
	int epoll; /* -1: files cannot be watched */
	u32 known; /* numbers in at: those of the last refresh, and later ones */
	u32 closing; /* in gone */
	u32 taken_up; /* 1: the epoll came from the engine before */
	u64 last; /* number without its container */
	u64 at[FILES_MAX];
	struct files_gone gone[FILES_MAX];
};

struct cgpud;

/* Take up the epoll of the engine before this one, or make one (fd -1); owns fd. When this kernel cannot do it: a negative
 * errno, and exports are refused. */
int files_open(struct files *files, int fd);
void files_close(struct files *files);
/* The state is that of an engine before this one: settle exports that have no watched file any more. */
void files_recover(struct cgpud *d);
/* Number the file that a descriptor of ours leads to. Watched from now on if something is to be exported on it (watch 1);
 * else an unwatched file gets a number that no other has. -EBADF: it is open for nothing; -ENOSPC: too many. */
int files_number(struct cgpud *d, int fd, u32 watch, u64 generation, u64 *number);
/* Settle exports of closed files. Returns how many of these are about to be settled. */
u32 files_sweep(struct cgpud *d);

#endif
