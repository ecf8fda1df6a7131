/* SPDX-License-Identifier: Apache-2.0 */
/* Capabilities of the calling thread. */
#ifndef CGPUD_PRIVILEGE_H
#define CGPUD_PRIVILEGE_H

/* Give up every capability of the calling thread but CAP_SYS_PTRACE, by which processes can be seen. The driver judges a call by
 * the thread that makes it. keeps_reserve: CAP_DAC_OVERRIDE can be had back for a moment, where the thread has it now.
 * 0, or a negative errno. */
int privilege_drop(int keeps_reserve);
/* For a thread that has dropped its capabilities: files of other users below /proc can be opened until
 * privilege_lower(). Nothing else is done meanwhile, least of all a call of a container. 0, or a negative errno. */
int privilege_raise(void);
void privilege_lower(void);

#endif
