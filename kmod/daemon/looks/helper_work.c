// SPDX-License-Identifier: Apache-2.0
/* Serves requests for looks, in a process that has nothing but two sockets. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "descriptors.h"
#include "examine.h"
#include "helper_work.h"
#include "looks.h"
#include "processes.h"

/* A look under way. */
struct work {
	struct look_request request;
	_Alignas(8) u8 data[LOOK_DATA_MAX]; /* of the request, then of the answer */
	int given; /* the descriptor that came with the request; -1 */
	int opened; /* one that goes with the answer; -1 */
	struct look_answer answer;
};

static int send_answer(struct work *work)
{
	struct message message = { .head = &work->answer,
		.head_bytes = sizeof(work->answer),
		.data = work->data,
		.data_bytes = work->answer.bytes,
		.file = { work->opened },
		.files = work->opened >= 0 };
	int r = message_send(HELPER_RESULTS, &message);

	close_one(&work->opened);
	return r;
}

/* Our own copy is closed before the answer tells of it: the file would outlive the container's close, and its memory with
 * it, for as long as this process has to wait for a processor. Returns 0, or a negative errno. */
static s32 hand_on(struct work *work, int copy)
{
	struct message message = {
		.head = &work->request.serial, .head_bytes = sizeof(work->request.serial), .file = { copy }, .files = 1
	};
	int r;

	if (copy < 0)
		return copy;
	r = message_send(HELPER_FILES, &message);
	close(copy);
	work->answer.copy = r == 0;
	return r;
}

/* What is not the file that was looked at is closed here, which may take for ever. */
static int copy(const struct work *work)
{
	struct identity found;
	int fd = process_take_fd(work->given, work->request.number);

	if (fd < 0)
		return fd;
	if (identity_of(fd, "", &found) == 0 && identity_same(&found, &work->request.identity))
		return fd;
	close(fd);
	return -EBADF;
}

static s32 read_memory(struct work *work, int memory)
{
	u32 bytes = work->request.bytes;

	/* fs/proc/base.c, mem_rw(): what cannot be reached ends it early; nothing is reached where nobody uses the address
	 * space. */
	if (bytes > sizeof(work->data) ||
		pread(memory, work->data, bytes, (off_t)work->request.address) != (ssize_t)bytes)
		return -EFAULT;
	work->answer.bytes = bytes;
	return 0;
}

static s32 write_memory(const struct work *work)
{
	u64 at = (u32)work->request.number * sizeof(struct look_part);
	const struct look_part *part = (const void *)work->data;
	s32 i;

	if ((u32)work->request.number > LOOK_PARTS_MAX || at > work->request.bytes)
		return -EINVAL;
	for (i = 0; i < work->request.number; i++) {
		if (part[i].bytes > work->request.bytes - at)
			return -EINVAL;
		if (pwrite(work->given, work->data + at, part[i].bytes, (off_t)part[i].address) !=
			(ssize_t)part[i].bytes)
			return -EFAULT;
		at += part[i].bytes;
	}
	return 0;
}

/* What a call needs at once. A copy is taken only of the file that most calls with one are made on. */
static s32 begin_call(struct work *work)
{
	s32 r = examine_file(work->request.tid, work->request.number, &work->answer.identity);

	if (r < 0)
		return r;
	work->opened = examine_open(work->request.tid, "mem", O_RDWR);
	if (work->opened >= 0 && work->request.bytes)
		read_memory(work, work->opened);
	if (work->given >= 0 && identity_same(&work->answer.identity, &work->request.identity))
		hand_on(work, copy(work));
	return 0;
}

static s32 open_file(struct work *work)
{
	static const struct {
		const char *name;
		int flags;
	} files[] = {
		[LOOKS_MEMORY] = { "mem", O_RDWR },
		[LOOKS_MAPPINGS] = { "maps", O_RDONLY },
		[LOOKS_PAGEMAP] = { "pagemap", O_RDONLY },
	};

	if ((u32)work->request.number >= sizeof(files) / sizeof(files[0]))
		return -EINVAL;
	work->opened =
		examine_open(work->request.tid, files[work->request.number].name, files[work->request.number].flags);
	return work->opened < 0 ? work->opened : 0;
}

/* Entries are gathered in the data, and sent when there is no room for more. */
static int append(struct work *work, const void *entry, u32 bytes)
{
	int r = 0;

	if (work->answer.bytes + bytes > sizeof(work->data)) {
		work->answer.more = 1;
		r = send_answer(work);
		work->answer.more = work->answer.bytes = 0;
	}
	memcpy(work->data + work->answer.bytes, entry, bytes);
	work->answer.bytes += bytes;
	return r;
}

static void append_range(void *ctx, u64 start, u64 end)
{
	struct look_range range = { start, end };

	append(ctx, &range, sizeof(range));
}

static int append_file(void *ctx, int number)
{
	struct work *work = ctx;
	struct look_file file = { .number = number };

	return examine_file(work->request.tid, number, &file.identity) < 0 ? 0 : append(work, &file, sizeof(file));
}

static s32 look_at_times(struct work *work)
{
	struct look_stat stat = { 0 };

	examine_stat(work->request.tid, &stat);
	return append(work, &stat, sizeof(stat));
}

/* The name of a group follows, with its end. */
static s32 look_at_filters(const struct work *work)
{
	if (!work->request.bytes || work->data[work->request.bytes - 1])
		return -EINVAL;
	return examine_filters(work->request.tid, (const char *)work->data);
}

static int has_data(const struct look_request *request)
{
	return request->what == LOOK_WRITE || request->what == LOOK_FILTERS;
}

static s32 look(struct work *work)
{
	const struct look_request *request = &work->request;

	switch ((enum look)request->what) {
	case LOOK_CALL:
		return begin_call(work);
	case LOOK_FILE:
		return examine_file(request->tid, request->number, &work->answer.identity);
	case LOOK_COPY:
		return hand_on(work, copy(work));
	case LOOK_OPEN:
		return open_file(work);
	case LOOK_READ:
		return read_memory(work, work->given);
	case LOOK_WRITE:
		return write_memory(work);
	case LOOK_LIVES:
		return examine_lives(work->given);
	case LOOK_MAPPINGS:
		return examine_mappings(work->given, append_range, work);
	case LOOK_STAT:
		return look_at_times(work);
	case LOOK_TGID:
		return examine_tgid(request->tid);
	case LOOK_SAME_FILES:
		return examine_same_files(request->tid, request->number);
	case LOOK_SAME_FILE:
		return examine_same_file(request->tid, request->number, work->given);
	case LOOK_FIND_FILE:
		return examine_has_file(request->tid, work->given, &work->answer.number);
	case LOOK_FILES:
		return examine_files(request->tid, append_file, work);
	case LOOK_FILTERS:
		return look_at_filters(work);
	case LOOK_FOREIGN:
		return examine_foreign(request->tid, request->number);
	}
	return -EINVAL;
}

/* 0, or a negative errno when there is nobody to ask, or what came is no request. */
static int receive_request(struct work *work)
{
	struct message message = { .head = &work->request,
		.head_bytes = sizeof(work->request),
		.data = work->data,
		.data_bytes = sizeof(work->data) };
	int r = message_receive(HELPER_RESULTS, &message, 0);

	if (r < 0)
		return r;
	work->given = message.files ? message.file[0] : -1;
	if (message.files > 1 || message.data_bytes != (has_data(&work->request) ? work->request.bytes : 0))
		return -EPROTO;
	return 0;
}

void helper_serve(void)
{
	struct work work;
	int r;

	while ((r = receive_request(&work)) == 0 || r == -EINTR) {
		if (r < 0)
			continue;
		work.answer = (struct look_answer){ .serial = work.request.serial };
		work.opened = -1;
		work.answer.result = look(&work);
		close_any(work.given);
		if (send_answer(&work) < 0)
			return;
	}
}
