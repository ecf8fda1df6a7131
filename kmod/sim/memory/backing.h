/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What memory consists of. A simulated card has no memory of its own: what a client maps or has copied lies in a file for
 * each piece of memory, in the folder that cgpu-sim was given by --memory, and only from when it is first needed; or it is
 * memory of a client's process. Without that folder memory is counted and has no contents, as in the kernel's test driver.
 */
#ifndef CGPU_SIM_BACKING_H
#define CGPU_SIM_BACKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct sim;
struct object;

struct backing {
	uint32_t refs;
	uint64_t size;
	/* Of a file: its number, which names it, or 0 before it is made. */
	uint64_t number;
	uint8_t *bytes;
	/* Of a process, when that is not 0. */
	pid_t process;
	uint64_t address;
	void (*drop)(struct sim *sim, struct backing *backing);
};

/* memory.c: with the lock held. NULL: no memory. */
struct backing *backing_make(uint64_t size);
struct backing *backing_of_process(pid_t process, uint64_t address, uint64_t size);
void backing_put(struct sim *sim, struct backing *backing);
/* What an object's memory consists of; NULL: it has none. The caller holds no reference. */
struct backing *backing_of(struct sim *sim, struct object *object);

/* backing_file.c: with the lock held. False: it has no contents, or that is outside of it. */
bool backing_need(struct sim *sim, struct backing *backing);
bool backing_read(struct sim *sim, struct backing *backing, uint64_t offset, void *out, uint64_t size);
bool backing_write(struct sim *sim, struct backing *backing, uint64_t offset, const void *data, uint64_t size);

#endif
