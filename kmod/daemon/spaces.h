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

#include "mappings.h"

#define SPACES_MAX 2048
#define SPACES_SHARE 256 /* of one container */
#define SPACE_UNKNOWN (~0ull)

struct space {
	s32 tgid; /* 0: none here */
	u32 slot;
	u64 generation;
	u64 serial; /* differs for every one */
	u32 busy; /* so many look at it, and nobody may drop it */
	int maps, life;
	u64 bytes; /* that were mapped at the last look, and are about to be; SPACE_UNKNOWN: no look has succeeded */
};

struct spaces {
	pthread_mutex_t lock; /* not held while a look waits for a process */
	u64 latest; /* serial */
	struct space at[SPACES_MAX];
};

void spaces_open(struct spaces *spaces);
void spaces_close(struct spaces *spaces);
/* The address space of a process is known from now on. May wait for the process. Its place, busy until it is put back;
 * -EAGAIN: it changes too fast, or cannot be looked at; -ENOSPC. */
int spaces_take(struct spaces *spaces, const struct space *wanted);
/* What an engine before this one had on its books: without a look. */
void spaces_take_up(struct spaces *spaces, const struct space *wanted);
/* The next one of a process number at or after a place; busy until it is put back. SPACES_MAX: none. */
u32 spaces_get(struct spaces *spaces, s32 tgid, u32 from);
void spaces_put(struct spaces *spaces, u32 at);
/* 1 while anybody uses it. Never waits. */
int space_lives(const struct space *space);
/* Whether one lives that a process number stands for. Any thread. */
int spaces_live(struct spaces *spaces, s32 tgid);
/* Forget those that nobody uses. Any thread. */
void spaces_sweep(struct spaces *spaces);

#endif
