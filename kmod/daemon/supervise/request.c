// SPDX-License-Identifier: Apache-2.0
/* Decodes system calls of all the kernel's tables into requests. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "request.h"
#include "system_calls.h"

static void decode_map(u64 address, u64 bytes, u64 flags, u64 fd, struct request *request)
{
	/* MAP_SHARED and MAP_SHARED_VALIDATE both have bit 0; so has nothing private. */
	request->kind = REQUEST_HARMLESS;
	if (!(flags & MAP_SHARED) || (flags & MAP_ANONYMOUS))
		return;
	request->kind = REQUEST_SHARED_MAP;
	request->fd = (int)fd;
	request->address = address;
	request->bytes = bytes;
}

void request_decode_old(const u32 args[REQUEST_OLD_ARGS], struct request *request)
{
	decode_map(args[0], args[1], args[3], args[4], request);
}

static void decode_by(const struct system_calls *calls, const struct seccomp_data *data, struct request *request)
{
	u64 mask = calls->arch & __AUDIT_ARCH_64BIT ? ~0ull : 0xffffffffull;
	u32 number = (u32)data->nr;

	if (data->arch != calls->arch)
		return;
	if (number == calls->ioctl) {
		request->kind = REQUEST_IOCTL;
		request->fd = (int)data->args[0];
		request->cmd = (u32)data->args[1];
		request->address = data->args[2] & mask;
	} else if (number == calls->mmap) {
		decode_map(data->args[0] & mask, data->args[1] & mask, data->args[3], data->args[4], request);
	} else if (calls->old_mmap != CALL_NONE && number == calls->old_mmap) {
		request->kind = REQUEST_OLD_MAP;
		request->address = (u32)data->args[0];
	}
}

void request_decode(const struct seccomp_notif *notif, struct request *request)
{
	u32 i;

	*request = (struct request){ .kind = REQUEST_UNKNOWN, .fd = -1 };
	for (i = 0; i < SYSTEM_CALL_TABLES; i++)
		decode_by(&system_calls[i], &notif->data, request);
}
