/* SPDX-License-Identifier: Apache-2.0 */
/* Memory in which the kernel's copy stops until we let it go on. */
#ifndef USERFAULT_H
#define USERFAULT_H

#include <stdbool.h>
#include <stddef.h>

struct trap {
	unsigned char *page; /* one page */
	int fd;
	bool on_write;
};

/* on_write: reading is free, and the page's content stays; the trap is armed at once. Otherwise any touch stops. False:
 * errno says why. */
bool trap_make(struct trap *trap, bool on_write, const void *data, size_t bytes);
/* Wait until a thread is stopped. */
bool trap_wait(struct trap *trap);
/* Let threads that are stopped, or come, go on; a page that any touch stops has the data from then on. */
void trap_release(struct trap *trap, const void *data, size_t bytes);

#endif
