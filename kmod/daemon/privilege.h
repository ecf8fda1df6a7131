/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CGPUD_PRIVILEGE_H
#define CGPUD_PRIVILEGE_H

/* Give up every capability of the calling thread but CAP_SYS_PTRACE, which reading a container's memory
 * takes. The driver judges a call by the thread that makes it. 0, or a negative errno. */
int privilege_drop(void);

#endif
