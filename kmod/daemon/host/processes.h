/* SPDX-License-Identifier: Apache-2.0 */
/* Processes and threads of containers, seen from the host's pid namespace. */
#ifndef CGPUD_PROCESSES_H
#define CGPUD_PROCESSES_H

#include <fcntl.h>
#include <sys/types.h>

#include "cgpu_types.h"

/* The beginning of a file of the kernel's, as text. Returns its length, or a negative errno. */
long read_text(const char *path, char *text, size_t bytes);

/* A notification of a listener. */
struct notice {
	int listener;
	u64 id;
};
/* 1 while its thread still waits for the answer: then the number that it tells is that thread's. */
int notice_stands(const struct notice *notice);

/* 1 when this kernel gives a pidfd for a thread that leads no process (6.9 and newer). */
u32 process_has_thread_pidfd(void);
/* A pidfd for the process (thread 0) or for the very thread (thread 1); negative errno. */
int process_open(s32 pid, u32 thread);
/* A copy of descriptor number fd of the pidfd's task; negative errno. */
int process_take_fd(int pidfd, int fd);
/* 1 when the pidfd's task has ended. */
int process_ended(int pidfd);
/* 1 when a process has ended, by its number; 0 also when nobody can tell. */
int process_has_ended(s32 tgid);
/* Process id of a thread. pidfd may be -1. -ESRCH when it has ended. */
s32 process_tgid(int pidfd, s32 tid);
/* Clock ticks from boot to the start of the thread; 0 when it has ended. */
u64 process_started(s32 tid);
/* 1 while the thread is on its way to its end. */
int process_is_exiting(s32 tid);
/* 1 when both have one descriptor table, 0 when not, negative errno when nobody can tell. */
int process_same_files(s32 tid, s32 other);

/* What tells a process from others that get its number later; 0: not known. */
static inline u32 process_mark(s32 tgid)
{
	return (u32)process_started(tgid);
}

/* 1 when a process has ended, or another one has its number. mark 0: by the number alone. */
static inline int process_has_left(s32 tgid, u32 mark)
{
	u32 now;

	if (process_has_ended(tgid))
		return 1;
	now = mark ? process_mark(tgid) : 0;
	return now && now != mark;
}

/* 1 when a descriptor of a task (0: of ours) leads to the same open file as ours, 0 when not, negative errno when nobody
 * can tell. */
int process_same_file(s32 tid, int fd, int ours);
/* 1 when a process has that open file, by which number; 0 when not, negative errno when nobody can tell. */
int process_has_file(s32 tgid, int ours, int *number);
/* Open a file below /proc/TID, also of another user's thread. Negative errno. It is that of the number: the process that has it by
 * then. */
int process_open_file(s32 tid, const char *name, int flags);
/* The memory of a thread's address space: what executes a program, or gets the number later, has another one. */
static inline int process_open_memory(s32 tid)
{
	return process_open_file(tid, "mem", O_RDWR);
}
/* Copy between that memory and ours: 0, or -EFAULT when not every byte could be moved. */
int process_read(int memory, u64 address, void *data, size_t bytes);
int process_write(int memory, u64 address, const void *data, size_t bytes);

#endif
