/* SPDX-License-Identifier: Apache-2.0 */
/* What a helper does: it looks at processes of one container, as it is asked, one look after the other. */
#ifndef CGPUD_HELPER_WORK_H
#define CGPUD_HELPER_WORK_H

/* A helper's own descriptors: its ends of two sockets. Copies of descriptors go by one of their own, so that an answer comes
 * when the helper has closed what it sent. Files below /proc go with the answer. */
#define HELPER_RESULTS 0
#define HELPER_FILES 1

/* Answer requests until the other end is closed, or something is amiss. */
void helper_serve(void);

#endif
