/* SPDX-License-Identifier: Apache-2.0 */
/* The system calls that filters send us, whichever of the processor's three tables they come through. */
#ifndef CGPUD_REQUEST_H
#define CGPUD_REQUEST_H

#include <linux/seccomp.h>

#include "cgpu_types.h"

enum request_kind { REQUEST_OTHER, REQUEST_IOCTL, REQUEST_SHARED_MAP };

struct request {
	enum request_kind kind;
	int fd;
	u32 cmd;
	u64 address;
	u64 bytes; /* of a mapping */
};

void request_decode(const struct seccomp_notif *notif, struct request *request);

#endif
