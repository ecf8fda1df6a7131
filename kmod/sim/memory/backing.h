/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contents of memory. A simulated card has no memory of its own. Each piece of memory that a client maps or has
 * copied has a file in the folder of cgpu-sim's option --memory, made when it is first needed; or it is memory of a
 * client's process. Without that folder memory is counted and has no contents, as in the kernel's test driver.
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
	/* Number by which the file is named; 0 before it is made. */
	uint64_t number;
	uint8_t *bytes;
	/* Process whose memory this is; 0: a file's. */
	pid_t process;
	uint64_t address;
	void (*drop)(struct sim *sim, struct backing *backing);
};

/* memory.c: with the lock held. NULL: no memory. */
struct backing *backing_make(uint64_t size);
struct backing *backing_of_process(pid_t process, uint64_t address, uint64_t size);
void backing_put(struct sim *sim, struct backing *backing);
/* Backing of an object's memory; NULL: it has none. The caller gets no reference. */
struct backing *backing_of(struct sim *sim, struct object *object);

/* backing_file.c: with the lock held. False: it has no contents, or that is outside of it. */
bool backing_need(struct sim *sim, struct backing *backing);
bool backing_read(struct sim *sim, struct backing *backing, uint64_t offset, void *out, uint64_t size);
bool backing_write(struct sim *sim, struct backing *backing, uint64_t offset, const void *data, uint64_t size);

#endif
