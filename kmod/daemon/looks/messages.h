/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between cgpud and the processes that look at containers' processes for it. A request and its answers go through
 * memory that cgpud and one helper share: a mailbox, which is either's turn. Descriptors go by a socket. A switch from one
 * process to the other and back takes some 4 us by a futex, where two messages by a socket take 8.
 */
#ifndef CGPUD_MESSAGES_H
#define CGPUD_MESSAGES_H

#include <stdatomic.h>
#include <sys/types.h>

#include "cgpu_core.h"
#include "device.h"

#define MESSAGE_FILES 2 /* descriptors in one message */
#define LOOK_PARTS_MAX (1 + CGPU_MAX_SEGMENTS) /* that are written at once */
#define LOOK_DATA_MAX (LOOK_PARTS_MAX * sizeof(struct look_part) + CGPU_SEGMENT_MAX)
#define LOOK_MEMORIES 16 /* memories of threads that a helper has open */

enum look {
	LOOK_CALL, /* LOOK_FILE; of a file that may be the driver's also the thread's memory, bytes, and a copy */
	LOOK_FILE, /* which file a descriptor is */
	LOOK_COPY, /* a copy of a descriptor of the pidfd that comes along */
	LOOK_OPEN, /* a file below /proc/TID, which has to be one of opened_files; memory stays with the helper */
	LOOK_READ, /* of an open memory */
	LOOK_WRITE, /* parts, into an open memory: their heads follow, then the bytes of all; and LOOK_DROP */
	LOOK_DROP, /* close the copy that was taken with that memory */
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
	u32 bytes; /* to be read; with LOOK_WRITE and LOOK_FILTERS, of the data behind */
	u64 address;
	u32 given; /* 1: a descriptor comes by the socket */
	u32 copied; /* of LOOK_CALL, 1: a copy is wanted if it is the file of identity */
	u32 major; /* of LOOK_CALL: another one that the driver has, besides that of identity */
	u32 closed; /* memories that the helper shall close, a bit each */
	s32 memory; /* number of the one that is read or written, or to be opened; -1 */
	struct identity identity; /* that a copy must have */
};

struct look_answer {
	u64 serial; /* of its request */
	s32 result; /* or a negative errno */
	s32 number;
	u32 more; /* 1: another answer to the same request follows */
	u32 sent; /* 1: a descriptor comes by the socket */
	u32 held; /* 1: the helper has a copy of a descriptor as number copy, until LOOK_DROP */
	s32 copy;
	u32 memory; /* 1: the request's memory is open */
	u32 bytes; /* that follow */
	u64 taken_ns; /* processor time of LOOK_MAPPINGS, in its last answer */
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

enum turn { TURN_ASKER, TURN_HELPER };

struct mailbox {
	_Atomic u32 turn; /* the side that may write the following fields */
	struct look_request request;
	struct look_answer answer;
	_Alignas(8) u8 data[LOOK_DATA_MAX]; /* of the request, then of the answer */
};

/* Let the other one go on. */
void mailbox_pass(struct mailbox *box, enum turn turn);
/* Wait until it is one's turn. ms: at most, 0: for ever. 0 or -ETIMEDOUT, also too early. */
int mailbox_await(struct mailbox *box, enum turn turn, u32 ms);

/* Descriptors, and the request or answer that they belong to. */
struct message {
	u64 serial;
	int file[MESSAGE_FILES];
	u32 files;
};

/* Returns 0 or a negative errno. */
int message_send(int sock, const struct message *message);
/* 0; -EPIPE: the other end is closed; -EPROTO: no such message; other negative errno. Descriptors come only with 0. */
int message_receive(int sock, struct message *message, int flags);

#endif
