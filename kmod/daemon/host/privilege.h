/* SPDX-License-Identifier: Apache-2.0 */
/* Capabilities of the calling thread. */
#ifndef CGPUD_PRIVILEGE_H
#define CGPUD_PRIVILEGE_H

/* Capabilities that a thread has in reserve. */
enum privilege {
	PRIVILEGE_FILES, /* CAP_DAC_OVERRIDE: opens files of other users below /proc */
	/* CAP_SYS_RESOURCE, else CAP_SYS_ADMIN: sends descriptors, however many root of containers has in flight. The kernel counts
	 * them by user. */
	PRIVILEGE_SENDING,
	PRIVILEGE_TRACING, /* CAP_SYS_ADMIN, CAP_KILL: reads a process's seccomp filters, and ends it */
	PRIVILEGES
};

#define PRIVILEGES_ALL ((1u << PRIVILEGES) - 1)

/* Give up every capability of the calling thread but CAP_SYS_PTRACE, by which processes can be seen, and those in reserve, of
 * which none is in force. The driver judges a call by the thread that makes it. reserve: 1 << enum privilege, summed up; less
 * than before. 0, or a negative errno. */
int privilege_drop(unsigned int reserve);
/* For a thread that has dropped its capabilities: have one of the reserve in force until privilege_lower(). Nothing else is
 * done meanwhile, least of all a call of a container. 0, or a negative errno. */
int privilege_raise(enum privilege privilege);
void privilege_lower(void);

#endif
