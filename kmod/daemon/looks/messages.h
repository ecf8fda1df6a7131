/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between cgpud and the processes that look at containers' processes for it. */
#ifndef CGPUD_MESSAGES_H
#define CGPUD_MESSAGES_H

#include <sys/types.h>

#include "cgpu_core.h"
#include "device.h"

#define MESSAGE_FILES 2 /* descriptors in one message */
#define LOOK_PARTS_MAX (1 + CGPU_MAX_SEGMENTS) /* that are written at once */
#define LOOK_DATA_MAX (LOOK_PARTS_MAX * sizeof(struct look_part) + CGPU_SEGMENT_MAX)

enum look {
	LOOK_CALL, /* LOOK_FILE, then the thread's memory, and bytes of it; LOOK_COPY where a pidfd comes along */
	LOOK_FILE, /* which file a descriptor is */
	LOOK_COPY, /* a copy of a descriptor of the pidfd that comes along */
	LOOK_OPEN, /* a file below /proc/TID, which has to be one of opened_files */
	LOOK_READ, /* of the memory that comes along */
	LOOK_WRITE, /* parts, into the memory that comes along: their heads follow, then the bytes of all */
	LOOK_LIVES, /* whether the address space of the pagemap that comes along is in use */
	LOOK_MAPPINGS, /* in the list of mappings that comes along */
	LOOK_STAT,
	LOOK_TGID,
	LOOK_SAME_FILES,
	LOOK_SAME_FILE,
	LOOK_FIND_FILE,
	LOOK_FILES, /* which files a process has open */
	LOOK_FILTERS, /* whether the seccomp filters of a process hold, in the control group whose name follows */
	LOOK_FOREIGN, /* whether a file was opened through a mount that its process does not have */
};

struct look_request {
	u64 serial;
	u32 what; /* enum look */
	s32 tid;
	s32 number; /* of a descriptor, another task, or an enum opened_file; how many parts */
	u32 bytes; /* to be read; of LOOK_WRITE and LOOK_FILTERS those that follow */
	u64 address;
	struct identity identity; /* that a copy must have */
};

struct look_answer {
	u64 serial; /* of its request */
	s32 result; /* or a negative errno */
	s32 number;
	u32 more; /* 1: another answer to the same request follows */
	u32 copy; /* 1: a copy of a descriptor comes by the other socket */
	u32 bytes; /* that follow */
	struct identity identity;
};

/* Fields of proc_pid_stat(5). */
struct look_stat {
	u64 started; /* clock ticks from boot to the thread's start; 0 when it has ended */
	u32 exiting; /* 1 while the thread is on its way to its end */
};

struct look_part {
	u64 address;
	u64 bytes;
};

struct look_range {
	u64 start, end;
};

struct look_file {
	s32 number;
	struct identity identity;
};

/* What a message consists of: a head, and what follows it. */
struct message {
	void *head;
	size_t head_bytes;
	void *data;
	size_t data_bytes; /* room for what follows */
	int file[MESSAGE_FILES];
	u32 files;
};

/* Returns 0 or a negative errno. */
int message_send(int sock, const struct message *message);
/* Sets data_bytes and files to what came. 0; -EPIPE: the other end is closed; -EPROTO: no such message; other negative
 * errno. Descriptors come only with 0. */
int message_receive(int sock, struct message *message, int flags);

#endif
