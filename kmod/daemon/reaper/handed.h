/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the driver that one container has handed to a process outside of it. */
#ifndef CGPUD_HANDED_H
#define CGPUD_HANDED_H

#include "device.h"

/* 1 when a process has a file of the driver open that was opened through a mount which the process itself does not have:
 * in another container, which has handed it out. 0 also where that cannot be told. */
int handed_files(struct devices *devices, s32 tgid);

#endif
