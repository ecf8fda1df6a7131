/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address spaces that have had managed memory. A process number is not enough to find one: others can share it (clone() with
 * CLONE_VM), and it lives on in them when the process ends or executes another program. So each is kept by two files of
 * /proc, which stay those of that very address space: one tells its mappings, as long as the process is there; the other
 * one tells at any time, and without waiting, whether it is still in use.
 */
#ifndef CGPUD_ADDRESS_SPACES_H
#define CGPUD_ADDRESS_SPACES_H

#include <pthread.h>

#include "cgpu_core.h"
#include "looks.h"
#include "processes.h"

#define ADDRESS_SPACES_MAX 2048
#define ADDRESS_SPACES_SHARE 256 /* of one container, where the others have left their fair shares */
#define ADDRESS_SPACE_UNKNOWN (~0ull)

struct address_space {
	s32 tgid; /* 0: none here */
	u32 started; /* look_mark() */
	u32 slot; /* CGPU_ORPHANS: its container was gone when an engine took it up */
	u64 generation;
	u64 serial; /* differs for every one */
	u32 busy; /* so many threads use it, and none may drop it */
	int maps, life; /* -1: could not be opened when an engine took it up; it lives as long as its process */
	u64 bytes; /* that were mapped at the last recount, and are about to be; ADDRESS_SPACE_UNKNOWN: none has succeeded */
};

struct address_spaces {
	pthread_mutex_t lock; /* not held while a process is looked at; the core's comes after it */
	struct cgpu_core *core;
	struct looks *looks;
	u32 max; /* as many as there are descriptors for */
	u64 latest; /* serial */
	struct address_space at[ADDRESS_SPACES_MAX];
};

void address_spaces_open(struct address_spaces *spaces, struct cgpu_core *core, struct looks *looks);
void address_spaces_close(struct address_spaces *spaces);
/* The address space of a process is known from now on. notice: of its thread. Its place, busy until
 * it is put back; -EAGAIN: it changes too fast, or cannot be looked at; -ENOENT: its thread waits no longer; -ENOSPC. */
int address_spaces_take(struct address_spaces *spaces, const struct address_space *wanted, const struct notice *notice);
/* Take up an address space from the ledger of an engine before: reads no list of mappings. */
void address_spaces_take_up(struct address_spaces *spaces, const struct address_space *wanted);
/* The next one of a container's process number at or after a place; busy until it is put back. ADDRESS_SPACES_MAX: none. */
u32 address_spaces_get(struct address_spaces *spaces, const struct address_space *of, u32 from);
void address_spaces_put(struct address_spaces *spaces, u32 at);
/* 1 while a process uses it, and when nobody can tell. */
int address_space_lives(const struct asker *asker, const struct address_space *space);
/* Whether one lives that a container's process number stands for; slot CGPU_ORPHANS: of any container that was removed.
 * latest: for address_spaces_came(). Any thread. */
int address_spaces_live(struct address_spaces *spaces, const struct address_space *of, u64 *latest);
/* Whether another one came since. With the lock. */
int address_spaces_came(struct address_spaces *spaces, const struct address_space *of, u64 latest);
/* Forget address spaces that no process uses: of all containers, or of that of an asker. */
void address_spaces_sweep(struct address_spaces *spaces, const struct asker *of);

#endif
