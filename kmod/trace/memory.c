// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the memory of observed processes by a small process, the reader. An observed process can map files of a file system
 * that never answers: whoever reads such memory waits, and no signal ends the wait. Then the recorder gives the reader up, and
 * reads nothing of that process again. The reader gets the memory as an open file, so that it needs no rights of its own; pages
 * that a userfaultfd has to fill cannot be read through such a file, and fail at once.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "recorder.h"

/* Long enough for a page from a slow disk. */
#define ANSWER_MS 1000
/* Readers that were given up and have not ended. */
#define HELD_MAX 16u

struct request {
	uint64_t address;
	uint32_t bytes;
};

struct answer {
	uint32_t bytes; /* 0: it cannot be read */
	uint8_t data[CAPTURE_BYTES];
};

/* reader: 0 when it has ended. process: 0 when that has ended or has other memory by now. */
static struct held {
	pid_t reader, process;
} held[HELD_MAX];
static pid_t reader;
static int to_reader = -1;

/* --- the reader --- */

static int receive(int sock, struct request *request)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec part = { request, sizeof(*request) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	int fd = -1;

	message.msg_control = &control;
	message.msg_controllen = sizeof(control.space);
	if (recvmsg(sock, &message, MSG_CMSG_CLOEXEC) != sizeof(*request))
		return -1;
	if (message.msg_controllen >= CMSG_LEN(sizeof(int)) && control.head.cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(&control.head), sizeof(fd));
	return fd;
}

static void be_reader(int sock)
{
	static struct answer answer;
	struct request request;
	int fd;

	/* A reader that cannot end must keep nothing of the recorder open. */
	if (dup2(sock, 0) < 0 || syscall(SYS_close_range, 1, ~0u, 0) < 0)
		_exit(1);
	setsid();
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	while ((fd = receive(0, &request)) >= 0) {
		size_t bytes = request.bytes < sizeof(answer.data) ? request.bytes : sizeof(answer.data);
		ssize_t n = pread(fd, answer.data, bytes, (off_t)request.address);

		close(fd);
		answer.bytes = n == (ssize_t)request.bytes ? request.bytes : 0;
		if (send(0, &answer, offsetof(struct answer, data) + answer.bytes, MSG_NOSIGNAL) < 0)
			break;
	}
	_exit(0);
}

/* --- the recorder --- */

/* Without SIGCHLD as its signal, so that waitpid(2) without __WCLONE reports the observed processes only. */
static bool start_reader(void)
{
	int pair[2];

	if (reader)
		return true;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return false;
	reader = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, 0);
	if (reader == 0)
		be_reader(pair[1]);
	close(pair[1]);
	to_reader = pair[0];
	if (reader < 0) {
		reader = 0;
		close(to_reader);
	}
	return reader != 0;
}

static void give_up(pid_t process, struct held *slot)
{
	kill(reader, SIGKILL);
	*slot = (struct held){ reader, process };
	reader = 0;
	close(to_reader);
}

/* A free entry of held[]; NULL: so many readers wait already that no other is risked. */
static struct held *free_slot(void)
{
	struct held *found = NULL;
	unsigned int i;

	for (i = 0; i < HELD_MAX; i++) {
		if (held[i].reader && waitpid(held[i].reader, NULL, __WCLONE | WNOHANG) != 0)
			held[i].reader = 0;
		if (!held[i].reader && (!found || !held[i].process))
			found = &held[i];
	}
	return found;
}

static bool is_held(pid_t process)
{
	unsigned int i;

	for (i = 0; i < HELD_MAX; i++) {
		if (held[i].process == process)
			return true;
	}
	return false;
}

void memory_forget(pid_t process)
{
	unsigned int i;

	for (i = 0; i < HELD_MAX; i++) {
		if (held[i].process == process)
			held[i].process = 0;
	}
}

static bool ask(int fd, uint64_t address, size_t bytes)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { .head = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	struct request request = { address, (uint32_t)bytes };
	struct iovec part = { &request, sizeof(request) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	message.msg_control = &control;
	message.msg_controllen = sizeof(control.space);
	return sendmsg(to_reader, &message, MSG_NOSIGNAL) == sizeof(request);
}

/* Bytes of an answer; 0: there will be none, -ETIMEDOUT: not soon. */
static ssize_t await(struct answer *answer)
{
	struct pollfd ready = { .fd = to_reader, .events = POLLIN };

	if (poll(&ready, 1, ANSWER_MS) <= 0)
		return -ETIMEDOUT;
	return recv(to_reader, answer, sizeof(*answer), 0);
}

bool memory_read(const struct task *task, uint64_t address, void *data, size_t bytes)
{
	static struct answer answer;
	struct held *slot = is_held(task->process) ? NULL : free_slot();
	char path[48];
	ssize_t n = 0;
	int fd;

	if (bytes == 0)
		return true;
	if (!slot || bytes > sizeof(answer.data) || !start_reader())
		return false;
	snprintf(path, sizeof(path), "/proc/%d/mem", task->tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (ask(fd, address, bytes))
		n = await(&answer);
	close(fd);
	if (n <= 0)
		give_up(n == -ETIMEDOUT ? task->process : 0, slot);
	if (n != (ssize_t)(offsetof(struct answer, data) + bytes))
		return false;
	memcpy(data, answer.data, bytes);
	return true;
}

/* Page by page: the page behind the text's need not be mapped. */
bool memory_text(const struct task *task, uint64_t address, char *text, size_t room)
{
	size_t used = 0;

	while (used < room) {
		size_t part = 4096 - (address + used) % 4096;

		if (part > room - used)
			part = room - used;
		if (!memory_read(task, address + used, text + used, part))
			return false;
		if (memchr(text + used, '\0', part))
			return true;
		used += part;
	}
	return false;
}
