/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes and threads of containers, seen from the host's pid namespace, as far as nothing of theirs is touched: none of
 * this can have to wait for them. All else is asked of looks.h.
 */
#ifndef CGPUD_PROCESSES_H
#define CGPUD_PROCESSES_H

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
/* A copy of descriptor number fd of the pidfd's task; negative errno. A close of the copy may wait for ever. */
int process_take_fd(int pidfd, int fd);
/* 1 when the pidfd's task has ended, or ends within so many milliseconds. */
int process_ends(int pidfd, int ms);
/* 1 when the pidfd's task has ended. */
int process_ended(int pidfd);
/* 1 when a process has ended, by its number; 0 also when nobody can tell. */
int process_has_ended(s32 tgid);
/* Process id of a pidfd's task. Negative errno, also where the kernel does not tell (before 6.13). */
s32 process_tgid(int pidfd);
/* A number that no other thread gets, as long as the machine runs. 0; -ENOSYS or -EINVAL: the kernel has none (before 6.9);
 * other negative errno. */
int process_inode(s32 tid, u64 *inode);
/* 1 when two descriptors of ours lead to the same open file, 0 when not, negative errno when nobody can tell. */
int same_file(int one, int other);

#endif
