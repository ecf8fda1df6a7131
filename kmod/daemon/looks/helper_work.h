/* SPDX-License-Identifier: Apache-2.0 */
/* A helper's work: it looks at processes of one container, as it is asked, one look after the other. */
#ifndef CGPUD_HELPER_WORK_H
#define CGPUD_HELPER_WORK_H

#include "messages.h"

/* A helper's own descriptors: its end of a socket, and the memory file of its mailbox. */
#define HELPER_FILES 0
#define HELPER_BOX 1

/* Answer requests until something is amiss. */
void helper_serve(struct mailbox *box);

#endif
