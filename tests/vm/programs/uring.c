// SPDX-License-Identifier: Apache-2.0
/* uring PATH: opens a node through io_uring, by one of the kernel's worker threads, and prints what became of it. */
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rm_client.h"

#define ENTRIES 4u

int main(int argc, char **argv)
{
	struct io_uring_params p = { 0 };
	int ring = argc > 1 ? (int)syscall(SYS_io_uring_setup, ENTRIES, &p) : -1, map = MAP_SHARED | MAP_POPULATE;
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
	uint8_t *sq, *cq;

	if (ring < 0)
		return perror("uring: io_uring_setup"), 2;
	sq = mmap(NULL, p.sq_off.array + ENTRIES * sizeof(uint32_t), PROT_READ | PROT_WRITE, map, ring,
		IORING_OFF_SQ_RING);
	cq = mmap(NULL, p.cq_off.cqes + p.cq_entries * sizeof(*cqe), PROT_READ | PROT_WRITE, map, ring,
		IORING_OFF_CQ_RING);
	sqe = mmap(NULL, ENTRIES * sizeof(*sqe), PROT_READ | PROT_WRITE, map, ring, IORING_OFF_SQES);
	if (sq == MAP_FAILED || cq == MAP_FAILED || (void *)sqe == MAP_FAILED)
		return perror("uring: mmap"), 2;
	*sqe = (struct io_uring_sqe){ .opcode = IORING_OP_OPENAT, .flags = IOSQE_ASYNC, .fd = AT_FDCWD };
	sqe->addr = (uintptr_t)argv[1];
	sqe->open_flags = O_RDWR;
	((uint32_t *)(sq + p.sq_off.array))[0] = 0;
	__atomic_store_n((uint32_t *)(sq + p.sq_off.tail), 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1)
		return perror("uring: io_uring_enter"), 2;
	cqe = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
	printf("opened result=%d\n", cqe->res < 0 ? cqe->res : 0);
	return 0;
}
