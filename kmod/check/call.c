// SPDX-License-Identifier: Apache-2.0
/* Single calls, on a copy of their structure that nothing else lies beside. */
#include <stdarg.h>
#include <stdio.h>
#include <linux/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

/* The first byte that changed and was not to be written; NV_ABI_ABSENT: none. `written` ends with an empty span. */
static u32 changed_at(const u8 *before, const u8 *after, size_t bytes, const struct span *written)
{
	const struct span *one;
	u32 i;

	for (i = 0; i < bytes; i++) {
		for (one = written; one->bytes && (i < one->at || i >= (u32)one->at + one->bytes); one++)
			;
		if (before[i] != after[i] && !one->bytes)
			return i;
	}
	return NV_ABI_ABSENT;
}

static u32 call(
	struct session *session, int fd, unsigned long command, u8 *data, size_t bytes, const struct span *written)
{
	u8 *placed = guarded_place(&session->top, bytes, 0);

	memcpy(placed, data, bytes);
	if (syscall(SYS_ioctl, fd, command, placed) != 0)
		return CALL_ERRNO | (u32)errno;
	session->strange_at = changed_at(data, placed, bytes, written);
	if (!guarded_intact(&session->top))
		session->strange_at = 0;
	memcpy(data, placed, bytes);
	return session->strange_at == NV_ABI_ABSENT ? NV_OK : CALL_STRANGE;
}

/* The structure lies behind a pointer then, and what is copied back is in its place all the same. */
static u32 in_wrapper(struct session *session, int fd, u32 nr, u8 *data, size_t bytes)
{
	const struct nv_layout_nv_ioctl_xfer_t *at = &session->abi->nv_ioctl_xfer_t;
	const struct span nothing[] = { { 0, 0 } };
	u8 *inner = guarded_place(&session->list, bytes, 0), wrapper[64] = { 0 };
	u32 status;

	memcpy(inner, data, bytes);
	put32(wrapper, at->cmd, nr);
	put32(wrapper, at->size, (u32)bytes);
	put64(wrapper, at->ptr, (uintptr_t)inner);
	status = call(
		session, fd, _IOC(3u, NV_IOCTL_MAGIC, NV_ESC_IOCTL_XFER_CMD, at->bytes), wrapper, at->bytes, nothing);
	memcpy(data, inner, bytes);
	return status;
}

u32 call_escape(struct session *session, int fd, u32 nr, u8 *data, size_t bytes, const struct span *written)
{
	if (session->wrapped)
		return in_wrapper(session, fd, nr, data, bytes);
	return call(session, fd, _IOC(3u, NV_IOCTL_MAGIC, nr, bytes), data, bytes, written);
}

u32 call_uvm(struct session *session, int fd, u32 command, u8 *data, size_t bytes, const struct span *written)
{
	return call(session, fd, command, data, bytes, written);
}

u32 call_uvm_cut(struct session *session, int fd, u32 command, const u8 *data, size_t bytes)
{
	u8 *placed = guarded_place(&session->top, bytes, 1);

	memcpy(placed, data, bytes - 1);
	return syscall(SYS_ioctl, fd, (unsigned long)command, placed) != 0 ? CALL_ERRNO | (u32)errno : NV_OK;
}

u32 call_unlike(struct session *session, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(session->unlike, sizeof(session->unlike), format, arguments);
	va_end(arguments);
	return CALL_UNLIKE;
}

const char *call_text(const struct session *session, u32 status)
{
	static char text[160];

	if (status == CALL_SILENT)
		snprintf(text, sizeof(text), "no status where it was expected");
	else if (status == CALL_STRANGE)
		snprintf(text, sizeof(text), "byte %u was written and is not the driver's to write",
			session->strange_at);
	else if (status == CALL_UNLIKE)
		snprintf(text, sizeof(text), "%s", session->unlike);
	else if (status & CALL_ERRNO)
		snprintf(text, sizeof(text), "%s", strerror((int)(status & ~CALL_ERRNO)));
	else
		snprintf(text, sizeof(text), "status 0x%x", status);
	return text;
}
