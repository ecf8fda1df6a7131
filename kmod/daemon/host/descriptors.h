/* SPDX-License-Identifier: Apache-2.0 */
/* Closes descriptors of ours that may be none. */
#ifndef CGPUD_DESCRIPTORS_H
#define CGPUD_DESCRIPTORS_H

#include <unistd.h>

/* fd: negative where there is none. */
static inline void close_any(int fd)
{
	if (fd >= 0)
		close(fd);
}

/* Close it, and forget it. */
static inline void close_one(int *fd)
{
	close_any(*fd);
	*fd = -1;
}

#endif
