/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Memory that the program in the kernel (witness.bpf.c) and its loader share. */
#ifndef CGPU_WITNESS_H
#define CGPU_WITNESS_H

#define WITNESS_GRANULE_SHIFT 16 /* PMA_PAGE_SHIFT, phys_mem_allocator.h */
#define WITNESS_FRAME_SHIFT 21
#define WITNESS_GRANULES (1u << (WITNESS_FRAME_SHIFT - WITNESS_GRANULE_SHIFT))
#define WITNESS_CARDS 32u
#define WITNESS_COUNTS ((WITNESS_CARDS + 1) * WITNESS_OWNERS) /* the last row: of cards whose allocator is not known */
#define WITNESS_CALLS 16384u /* tasks that can be in the allocator at once */
#define WITNESS_WORKERS 256u /* threads that make calls for containers */
#define WITNESS_LEVELS 16 /* of cgroups, within which those of containers lie */
#define WITNESS_CODE_BYTES 16384u

/* Owners of a granule. Others are containers, by the number that the loader was given for the cgroup. */
enum witness_owner {
	WITNESS_FREE,
	WITNESS_DRIVER, /* taken by a task of no container */
	WITNESS_CHUNKS, /* UVM's, which may serve several containers */
	WITNESS_CONTAINERS,
	WITNESS_OWNERS = 1024
};

#define WITNESS_WORDS (WITNESS_GRANULES / 4)

/* Owners of 2 MiB, four in a word. */
union witness_frame {
	__u64 word[WITNESS_WORDS];
	__u16 owner[WITNESS_GRANULES];
};

enum witness_place { WITNESS_ENTRY, WITNESS_RETURN, WITNESS_FREEING, WITNESS_PLACES };

struct witness_card {
	__u64 allocator; /* address of the driver's PMA; 0: not known */
	__u32 first, frames; /* of the map of owners */
};

/* All of a card's owner. */
struct witness_count {
	__u64 given, back; /* bytes, since the loader's start */
	__u64 limit; /* bytes in use that end in an event, after which it doubles; 0: none does */
};

struct witness_state {
	struct witness_card card[WITNESS_CARDS];
	__u64 chunks_begin, chunks_end; /* code that takes UVM's chunks */
	__u32 binding_task, binding_card; /* the thread whose next page names the card's allocator; 0: none */
	__u32 acting[WITNESS_WORKERS]; /* owner for whom a thread makes a call now; WITNESS_FREE: for itself */
	__u64 runs[WITNESS_PLACES]; /* of the programs */
	__u64 lost; /* calls whose pages are not counted */
	__u64 lost_events;
	__u64 code_address; /* that read_code() copies */
	__u32 code_bytes;
};

/* An owner has more than its limit. */
struct witness_event {
	__u64 used, limit, bytes; /* bytes: of this call */
	__u64 time; /* CLOCK_MONOTONIC */
	__u32 card, owner, process, task;
	char command[16];
};

#endif
