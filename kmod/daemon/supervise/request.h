/* SPDX-License-Identifier: Apache-2.0 */
/* The system calls that filters send us, whichever of the kernel's tables they come through. */
#ifndef CGPUD_REQUEST_H
#define CGPUD_REQUEST_H

#include <linux/seccomp.h>

#include "cgpu_types.h"

enum request_kind {
	REQUEST_UNKNOWN, /* unknown architecture or call, which the engine cannot judge */
	REQUEST_HARMLESS,
	REQUEST_IOCTL,
	REQUEST_SHARED_MAP,
	REQUEST_OLD_MAP, /* its arguments are in memory */
};

struct request {
	enum request_kind kind;
	int fd;
	u32 cmd;
	u64 address; /* of the arguments, or of the mapping */
	u64 bytes; /* of a mapping */
};

#define REQUEST_OLD_ARGS 6

void request_decode(const struct seccomp_notif *notif, struct request *request);
/* The arguments of REQUEST_OLD_MAP. */
void request_decode_old(const u32 args[REQUEST_OLD_ARGS], struct request *request);

#endif
