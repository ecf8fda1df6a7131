// SPDX-License-Identifier: Apache-2.0
/* Serves requests for looks, in a process that has nothing but a mailbox and a socket. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "descriptors.h"
#include "examine.h"
#include "helper_work.h"
#include "looks.h"
#include "processes.h"

#define THREADS_MAX 16

/* A look under way. */
struct work {
	struct mailbox *box;
	struct look_request request;
	int given; /* the descriptor that came with the request; -1 */
	int memory[LOOK_MEMORIES]; /* of threads; -1 */
	int copy[LOOK_MEMORIES]; /* of the file that the call with that memory is made on; -1 */
	struct {
		s32 tid; /* 0: none */
		int pidfd;
	} thread[THREADS_MAX]; /* lately looked at */
	struct look_answer answer;
};

static void send_answer(struct work *work)
{
	work->box->answer = work->answer;
	mailbox_pass(work->box, TURN_ASKER);
}

/* Our own descriptor is closed before the answer tells of it: a container's file would outlive the container's close, and
 * its memory with it, for as long as this process has to wait for a processor. Returns 0, or a negative errno. */
static s32 hand_on(struct work *work, int fd)
{
	struct message message = { .serial = work->request.serial, .file = { fd }, .files = 1 };
	int r;

	if (fd < 0)
		return fd;
	r = message_send(HELPER_FILES, &message);
	close(fd);
	work->answer.sent = r == 0;
	return r;
}

/*
 * Copy the descriptor, if it still leads to the file examined: the process may have reused the number. To close a copy of another
 * file may take for ever, and then this helper alone waits.
 */
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

/* --- memory: it stays open here from one look to the next of the same call --- */

/* The request's memory; NULL: it names none. */
static int *find_memory(struct work *work)
{
	return (u32)work->request.memory < LOOK_MEMORIES ? &work->memory[work->request.memory] : NULL;
}

static void close_memories(struct work *work)
{
	u32 i;

	for (i = 0; i < LOOK_MEMORIES; i++) {
		if (work->request.closed >> i & 1) {
			close_one(&work->memory[i]);
			close_one(&work->copy[i]);
		}
	}
}

static s32 drop_copy(struct work *work)
{
	if (find_memory(work))
		close_one(&work->copy[work->request.memory]);
	return 0;
}

static s32 open_memory(struct work *work)
{
	int *memory = find_memory(work);

	if (!memory)
		return -EMFILE;
	/* The number may have memory of an earlier look whose asker did not wait for the answer. */
	close_one(memory);
	drop_copy(work);
	*memory = examine_open(work->request.tid, "mem", O_RDWR);
	work->answer.memory = *memory >= 0;
	return *memory < 0 ? *memory : 0;
}

static s32 read_memory(struct work *work)
{
	const int *memory = find_memory(work);
	u32 bytes = work->request.bytes;

	/* fs/proc/base.c, mem_rw(): an unreadable page ends the read early; without users of the address space it gives
	 * no bytes. */
	if (!memory || bytes > sizeof(work->box->data) ||
		pread(*memory, work->box->data, bytes, (off_t)work->request.address) != (ssize_t)bytes)
		return -EFAULT;
	work->answer.bytes = bytes;
	return 0;
}

static s32 write_memory(struct work *work)
{
	u64 at = LOOK_PARTS_MAX * sizeof(struct look_part);
	const struct look_part *part = (const void *)work->box->data;
	const int *memory = find_memory(work);
	s32 i;

	if (!memory || (u32)work->request.number > LOOK_PARTS_MAX || at > work->request.bytes)
		return -EINVAL;
	drop_copy(work);
	for (i = 0; i < work->request.number; i++) {
		if (part[i].bytes > work->request.bytes - at)
			return -EINVAL;
		if (pwrite(*memory, work->box->data + at, part[i].bytes, (off_t)part[i].address) !=
			(ssize_t)part[i].bytes)
			return -EFAULT;
		at += part[i].bytes;
	}
	return 0;
}

/* Nodes of the driver have one of two major numbers, or lie in one file system. */
static int may_be_driver(const struct look_request *request, const struct identity *found)
{
	const struct identity *node = &request->identity;

	if (!found->is_char)
		return !node->is_char && found->device == node->device;
	return (node->is_char && found->major == node->major) || (request->major && found->major == request->major);
}

/* A copy of a thread's descriptor. A pidfd stays with one thread, and tells when that has ended: then another one may have
 * the number. */
static int take_from_thread(struct work *work, s32 tid, int number)
{
	u32 place = (u32)tid % THREADS_MAX;
	int tries, fd = -ESRCH;

	for (tries = 0; tries < 2 && fd == -ESRCH; tries++) {
		if (work->thread[place].tid != tid) {
			if (work->thread[place].tid)
				close(work->thread[place].pidfd);
			work->thread[place].tid = 0;
			fd = process_open(tid, 1);
			if (fd < 0)
				return fd;
			work->thread[place].pidfd = fd;
			work->thread[place].tid = tid;
		}
		fd = process_take_fd(work->thread[place].pidfd, number);
		if (fd == -ESRCH) {
			close(work->thread[place].pidfd);
			work->thread[place].tid = 0;
		}
	}
	return fd;
}

/* Identify the file by a copy of the descriptor, which takes less time than by its name. The thread keeps its number
 * until its call is answered, as for all of this look. -1: there is none. */
static int examine_copy(struct work *work)
{
	int fd = take_from_thread(work, work->request.tid, work->request.number);

	if (fd >= 0 && identity_of(fd, "", &work->answer.identity) < 0)
		close_one(&fd);
	return fd;
}

/* Hold the copy for the engine, which takes it from here in a third of a message's time. */
static void hold_copy(struct work *work, int fd)
{
	if (!work->answer.memory || !identity_same(&work->answer.identity, &work->request.identity)) {
		close_any(fd);
		return;
	}
	work->copy[work->request.memory] = fd;
	work->answer.held = fd >= 0;
	work->answer.copy = fd;
}

/* Get all that a call needs at once. The helper has a copy only of the file on which most calls with one are made. */
static s32 begin_call(struct work *work)
{
	int fd = work->request.copied ? examine_copy(work) : -1;
	s32 r = fd < 0 ? examine_file(work->request.tid, work->request.number, &work->answer.identity) : 0;

	if (r == 0 && may_be_driver(&work->request, &work->answer.identity)) {
		if (open_memory(work) == 0 && work->request.bytes)
			read_memory(work);
	}
	hold_copy(work, fd);
	return r;
}

static s32 open_file(struct work *work)
{
	static const char *const names[] = { [LOOKS_MAPPINGS] = "maps", [LOOKS_PAGEMAP] = "pagemap" };

	if (work->request.number == LOOKS_MEMORY)
		return open_memory(work);
	if ((u32)work->request.number >= sizeof(names) / sizeof(names[0]))
		return -EINVAL;
	return hand_on(work, examine_open(work->request.tid, names[work->request.number], O_RDONLY));
}

/* Entries are gathered in the data, and sent when there is no room for more. */
static void append(struct work *work, const void *entry, u32 bytes)
{
	if (work->answer.bytes + bytes > sizeof(work->box->data)) {
		work->answer.more = 1;
		send_answer(work);
		mailbox_await(work->box, TURN_HELPER, 0);
		work->answer.more = work->answer.bytes = 0;
	}
	memcpy(work->box->data + work->answer.bytes, entry, bytes);
	work->answer.bytes += bytes;
}

static void append_range(void *ctx, u64 start, u64 end)
{
	struct look_range range = { start, end };

	append(ctx, &range, sizeof(range));
}

static s32 look_at_mappings(struct work *work)
{
	u64 begun = clock_ns_of(CLOCK_PROCESS_CPUTIME_ID);
	s32 r = examine_mappings(work->given, append_range, work);

	work->answer.taken_ns = clock_ns_of(CLOCK_PROCESS_CPUTIME_ID) - begun;
	return r;
}

static int append_file(void *ctx, int number)
{
	struct work *work = ctx;
	struct look_file file = { .number = number };

	if (examine_file(work->request.tid, number, &file.identity) == 0)
		append(work, &file, sizeof(file));
	return 0;
}

static s32 look_at_times(struct work *work)
{
	struct look_stat stat = { 0 };

	examine_stat(work->request.tid, &stat);
	append(work, &stat, sizeof(stat));
	return 0;
}

/* The name of a group follows, with its end. */
static s32 look_at_filters(const struct work *work)
{
	const char *name = (const char *)work->box->data;

	if (strnlen(name, sizeof(work->box->data)) == sizeof(work->box->data))
		return -EINVAL;
	return examine_filters(work->request.tid, name);
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
		return read_memory(work);
	case LOOK_WRITE:
		return write_memory(work);
	case LOOK_DROP:
		return drop_copy(work);
	case LOOK_LIVES:
		return examine_lives(work->given);
	case LOOK_MAPPINGS:
		return look_at_mappings(work);
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

/* Take the next request. 0, or a negative errno when the mailbox has no good one. */
static int take_request(struct work *work)
{
	struct message message = { 0 };
	int r;

	work->request = work->box->request;
	work->given = -1;
	work->answer = (struct look_answer){ .serial = work->request.serial };
	if (!work->request.given)
		return 0;
	r = message_receive(HELPER_FILES, &message, MSG_DONTWAIT);
	if (r < 0 || message.serial != work->request.serial || message.files != 1)
		return -EPROTO;
	work->given = message.file[0];
	return 0;
}

void helper_serve(struct mailbox *box)
{
	struct work work = { .box = box };
	u32 i;

	for (i = 0; i < LOOK_MEMORIES; i++)
		work.memory[i] = work.copy[i] = -1;
	for (;;) {
		mailbox_await(box, TURN_HELPER, 0);
		if (take_request(&work) < 0)
			return;
		work.answer.result = look(&work);
		close_any(work.given);
		send_answer(&work);
		/* Close memories while the next request is not here yet. */
		close_memories(&work);
	}
}
