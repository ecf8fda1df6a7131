/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address spaces that have had managed memory. A process number is not enough to find one: others can share it (clone() with
 * CLONE_VM), and it lives on in them when the process ends or executes another program. So each is kept by two files of
 * /proc, which stay those of that very address space: one tells its mappings, as long as the process is there; the other
 * one tells at any time, and without waiting, whether it is still in use.
 */
#ifndef CGPUD_SPACES_H
#define CGPUD_SPACES_H

#include <pthread.h>

#include "cgpu_core.h"
#include "mappings.h"
#include "processes.h"

#define SPACES_MAX 2048
#define SPACES_SHARE 256 /* of one container, where the others have left their fair shares */
#define SPACE_UNKNOWN (~0ull)

struct space {
	s32 tgid; /* 0: none here */
	u32 started; /* process_mark() */
	u32 slot; /* CGPU_ORPHANS: its container was gone when an engine took it up */
	u64 generation;
	u64 serial; /* differs for every one */
	u32 busy; /* so many look at it, and nobody may drop it */
	int maps, life; /* -1: could not be opened when an engine took it up; it lives as long as its process */
	u64 bytes; /* that were mapped at the last look, and are about to be; SPACE_UNKNOWN: no look has succeeded */
};

struct spaces {
	pthread_mutex_t lock; /* not held while a look waits for a process; the core's comes after it */
	struct cgpu_core *core;
	u32 max; /* as many as there are descriptors for */
	u64 latest; /* serial */
	struct space at[SPACES_MAX];
};

void spaces_open(struct spaces *spaces, struct cgpu_core *core);
void spaces_close(struct spaces *spaces);
/* The address space of a process is known from now on. May wait for the process. notice: of its thread. Its place, busy until
 * it is put back; -EAGAIN: it changes too fast, or cannot be looked at; -ENOENT: its thread waits no longer; -ENOSPC. */
int spaces_take(struct spaces *spaces, const struct space *wanted, const struct notice *notice);
/* What an engine before this one had on its books: without a look. */
void spaces_take_up(struct spaces *spaces, const struct space *wanted);
/* The next one of a container's process number at or after a place; busy until it is put back. SPACES_MAX: none. */
u32 spaces_get(struct spaces *spaces, const struct space *of, u32 from);
void spaces_put(struct spaces *spaces, u32 at);
/* 1 while anybody uses it. Never waits. */
int space_lives(const struct space *space);
/* Whether one lives that a container's process number stands for; slot CGPU_ORPHANS: of any container that was removed. Any
 * thread, with the lock. */
int spaces_live(struct spaces *spaces, const struct space *of);
/* Forget those that nobody uses. Any thread. */
void spaces_sweep(struct spaces *spaces);

#endif
