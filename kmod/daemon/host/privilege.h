/* SPDX-License-Identifier: Apache-2.0 */
/* Capabilities of the calling thread. */
#ifndef CGPUD_PRIVILEGE_H
#define CGPUD_PRIVILEGE_H

/* That a thread has in reserve. */
enum privilege {
	PRIVILEGE_FILES, /* CAP_DAC_OVERRIDE: opens files of other users below /proc */
	/* CAP_SYS_RESOURCE, else CAP_SYS_ADMIN: sends descriptors, however many root of containers has in flight. The kernel counts
	 * them by user. */
	PRIVILEGE_SENDING,
	PRIVILEGES
};

/* Give up every capability of the calling thread but CAP_SYS_PTRACE, by which processes can be seen, and those in reserve, of
 * which none is in force. The driver judges a call by the thread that makes it. 0, or a negative errno. */
int privilege_drop(void);
/* For a thread that has dropped its capabilities: have one of the reserve in force until privilege_lower(). Nothing else is
 * done meanwhile, least of all a call of a container. 0, or a negative errno. */
int privilege_raise(enum privilege privilege);
void privilege_lower(void);

#endif
