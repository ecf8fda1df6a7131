// SPDX-License-Identifier: Apache-2.0
/* Decodes system calls of all three tables into requests. */
#define _GNU_SOURCE
#include <linux/audit.h>
#include <sys/mman.h>

#include "request.h"

/* arch/x86/entry/syscalls/syscall_64.tbl and syscall_32.tbl */
#define X32_BIT 0x40000000
#define X86_64_IOCTL 16
#define X86_64_MMAP 9
#define X32_IOCTL (X32_BIT + 514)
#define X32_MMAP (X32_BIT + 9)
#define I386_IOCTL 54
#define I386_MMAP 90
#define I386_MMAP2 192

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

void request_decode(const struct seccomp_notif *notif, struct request *request)
{
	const struct seccomp_data *data = &notif->data;
	int is_64 = data->arch == AUDIT_ARCH_X86_64, is_32 = data->arch == AUDIT_ARCH_I386;
	u64 mask = is_32 ? 0xffffffffull : ~0ull;

	*request = (struct request){ .kind = REQUEST_UNKNOWN, .fd = -1 };
	if ((is_64 && (data->nr == X86_64_IOCTL || data->nr == X32_IOCTL)) || (is_32 && data->nr == I386_IOCTL)) {
		request->kind = REQUEST_IOCTL;
		request->fd = (int)data->args[0];
		request->cmd = (u32)data->args[1];
		request->address = data->args[2] & mask;
	} else if ((is_64 && (data->nr == X86_64_MMAP || data->nr == X32_MMAP)) || (is_32 && data->nr == I386_MMAP2)) {
		decode_map(data->args[0] & mask, data->args[1] & mask, data->args[3], data->args[4], request);
	} else if (is_32 && data->nr == I386_MMAP) {
		request->kind = REQUEST_OLD_MAP;
		request->address = (u32)data->args[0];
	}
}
