// SPDX-License-Identifier: Apache-2.0
/* Single calls by the layouts under test, on a copy of their structure that nothing else lies beside. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <linux/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

#define MAX_SPANS 6u

static const struct span nothing[] = { { 0, 0 } };

int node_open(const struct driver *driver, const char *node)
{
	char path[4200];

	snprintf(path, sizeof(path), "%s/%s", driver->dev, node);
	return open(path, O_RDWR | O_CLOEXEC);
}

int node_open_card(const struct driver *driver, u32 minor)
{
	char node[32];

	snprintf(node, sizeof(node), "nvidia%u", minor);
	return node_open(driver, node);
}

/* The first byte that changed and that the driver may not write; NV_ABI_ABSENT: none. `written` ends with an empty span. */
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

/* Makes the call in the transfer wrapper, which points to the structure: the driver writes its answer there too. */
static u32 in_wrapper(struct session *session, int fd, u32 nr, u8 *data, size_t bytes)
{
	const struct nv_layout_nv_ioctl_xfer_t *at = &session->abi->nv_ioctl_xfer_t;
	u8 *inner = guarded_place(&session->list, bytes, 0), wrapper[128] = { 0 };
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

u32 call_uvm_writes(
	struct session *session, int fd, u32 command, u8 *data, size_t bytes, u16 status_at, const struct span *also)
{
	struct span spans[MAX_SPANS] = { { status_at, 4 } };
	u32 count = 1, status;

	/* An empty span ends the list. */
	while (also->bytes && count < MAX_SPANS - 1)
		spans[count++] = *also++;
	put32(data, status_at, CALL_SILENT);
	status = call(session, fd, command, data, bytes, spans);
	return status != NV_OK ? status : get32(data, status_at);
}

u32 call_uvm(struct session *session, int fd, u32 command, u8 *data, size_t bytes, u16 status_at)
{
	return call_uvm_writes(session, fd, command, data, bytes, status_at, nothing);
}

u32 call_uvm_cut(struct session *session, int fd, u32 command, const u8 *data, size_t bytes)
{
	u8 *placed = guarded_place(&session->top, bytes, 1);

	memcpy(placed, data, bytes - 1);
	return syscall(SYS_ioctl, fd, (unsigned long)command, placed) != 0 ? CALL_ERRNO | (u32)errno : NV_OK;
}

u32 rm_make(struct session *session, struct rm_ioctl *io, const struct span *written)
{
	struct span spans[MAX_SPANS] = { { io->status, 4 } };
	u32 count = 1, status;

	if (io->handle != NV_ABI_ABSENT)
		spans[count++] = (struct span){ io->handle, 4 };
	while (written->bytes && count < MAX_SPANS - 1)
		spans[count++] = *written++;
	put32(io->data, io->status, CALL_SILENT);
	status = call_escape(session, session->ctl, io->nr, io->data, io->bytes, spans);
	return status != NV_OK ? status : get32(io->data, io->status);
}

/* rm_make() for a call with parameters: the driver may write nothing before them. */
static u32 make_with_params(struct session *session, struct rm_ioctl *io, const struct span *written, u32 bytes)
{
	u32 status = rm_make(session, io, written);

	if (!(status & CALL_ERRNO) && status != CALL_STRANGE && bytes && !guarded_intact(&session->params)) {
		session->strange_at = 0;
		return CALL_STRANGE;
	}
	return status;
}

u32 rm_alloc(struct session *session, enum via via, u32 parent, u32 class_id, u32 bytes, u32 *handle)
{
	struct rm_ioctl io = rm_alloc_ioctl(session->abi, via, session->client, parent, *handle, class_id,
		bytes ? session->params.placed : NULL, bytes);
	/* The driver may write the class of a client (escape.c, NV_ESC_RM_ALLOC). */
	const u16 class_at =
		via == VIA_RM21 ? session->abi->NVOS21_PARAMETERS.hClass : session->abi->NVOS64_PARAMETERS.hClass;
	const struct span written[] = { { class_at, class_id == NV01_ROOT_CLIENT ? 4 : 0 }, { 0, 0 } };
	u32 status;

	status = make_with_params(session, &io, written, bytes);
	if (status == NV_OK)
		*handle = get32(io.data, io.handle);
	return status;
}

u32 rm_control(struct session *session, u32 object, u32 command, u32 bytes)
{
	struct rm_ioctl io = rm_control_ioctl(
		session->abi, session->client, object, command, bytes ? session->params.placed : NULL, bytes);

	return make_with_params(session, &io, nothing, bytes);
}

u32 rm_free(struct session *session, u32 handle)
{
	struct rm_ioctl io = rm_free_ioctl(session->abi, session->client, session->device, handle);

	return rm_make(session, &io, nothing);
}

u32 rm_dup(struct session *session, u32 source_client, u32 source, u32 *handle)
{
	struct rm_ioctl io =
		rm_dup_ioctl(session->abi, session->client, session->device, *handle, source_client, source);
	u32 status = rm_make(session, &io, nothing);

	if (status == NV_OK)
		*handle = get32(io.data, io.handle);
	return status;
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

bool call_refused(u32 status, u32 expected)
{
	if (status == NV_OK || status == CALL_SILENT || status >= CALL_UNLIKE)
		return false;
	return !expected || status == expected;
}

u32 call_judge_handle(struct session *session, u32 handle, u32 wanted)
{
	return handle == wanted ? NV_OK : call_unlike(session, "handle 0x%x came for 0x%x", handle, wanted);
}
