/* SPDX-License-Identifier: Apache-2.0 */
/* An epoll that is never waited on: which open files are in it, by numbers. */
#ifndef CGPUD_WATCHED_H
#define CGPUD_WATCHED_H

#include "cgpu_types.h"

/* Reserve what is needed in this process, and see whether the kernel has all that is. 0 or a negative errno. */
int watched_try(void);
/* Whether a descriptor is one. */
int watched_is(int fd);
/* Put in the file that a descriptor leads to. -EEXIST: it is in; -EBADF: the descriptor is open for nothing. */
int watched_add(int epoll, int fd, u64 number);
void watched_drop(int epoll, int fd);
/* The number of a file that is in. most: at least as many as there are. */
int watched_find(int epoll, int fd, u32 most, u64 *number);
/* All numbers. Returns how many, or a negative errno: -E2BIG when there are more than most. */
int watched_list(int epoll, u64 *numbers, u32 most);

#endif
