// SPDX-License-Identifier: Apache-2.0
/* Takes copies of containers' descriptors, by a small process for each thread that does so. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "copies.h"
#include "descriptors.h"
#include "privilege.h"
#include "processes.h"

/* How often a thread that waits checks whether it has to end. */
#define POLL_MS 100
/* So many checks after it was told to end it gives up: a machine with much to do may need a moment for an honest copy. */
#define LAST_POLLS 10
/* Of the other process: its ends of the sockets. */
#define PEER_RESULTS 0
#define PEER_FILES 1

struct request {
	s32 number;
	struct identity node;
};

/* Our ends of the sockets to this thread's process; -1: there is none. Descriptors come by one of their own, so that the
 * result wakes this thread when the process has closed what it sent. */
static _Thread_local int own_results = -1;
static _Thread_local int own_files = -1;

/* Room for one descriptor. */
union control {
	struct cmsghdr head;
	char space[CMSG_SPACE(sizeof(int))];
};

/* With a descriptor, unless fd is negative. */
static ssize_t send_with(int sock, const void *data, size_t bytes, int fd)
{
	union control control = { 0 };
	struct iovec part = { (void *)(uintptr_t)data, bytes };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

	if (fd >= 0) {
		control.head = (struct cmsghdr){ CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
		memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
		message.msg_control = &control;
		message.msg_controllen = sizeof(control.space);
	}
	return sendmsg(sock, &message, MSG_NOSIGNAL);
}

/* *fd: -1 when none came with it. */
static ssize_t receive_with(int sock, void *data, size_t bytes, int flags, int *fd)
{
	union control control = { 0 };
	struct iovec part = { data, bytes };
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control.space)
	};
	ssize_t n;

	*fd = -1;
	n = recvmsg(sock, &message, MSG_CMSG_CLOEXEC | flags);
	if (n >= 0 && message.msg_controllen >= CMSG_LEN(sizeof(int)) && control.head.cmsg_type == SCM_RIGHTS)
		memcpy(fd, CMSG_DATA(&control.head), sizeof(*fd));
	return n;
}

/* --- the other process: a copy of this one, with nothing but its socket; nothing of libc that takes a lock --- */

/* Returns the descriptor, or a negative errno: then it is closed here, which may take for ever. */
static int copy(int pidfd, const struct request *request)
{
	struct identity found;
	int fd = process_take_fd(pidfd, request->number);

	if (fd < 0)
		return fd;
	if (identity_of(fd, "", &found) == 0 && identity_same(&found, &request->node))
		return fd;
	close(fd);
	return -EBADF;
}

/* Our own copy is closed before the result tells of it: the file would outlive the container's close, and its memory with
 * it, for as long as this process has to wait for a processor. */
static s32 hand_on(int fd)
{
	s32 result = 0;

	if (send_with(PEER_FILES, &result, sizeof(result), fd) < 0)
		result = -errno;
	close(fd);
	return result;
}

static void serve(void)
{
	struct request request;
	int pidfd, fd;
	s32 result;

	while (receive_with(PEER_RESULTS, &request, sizeof(request), 0, &pidfd) == sizeof(request)) {
		fd = copy(pidfd, &request);
		close(pidfd);
		result = fd < 0 ? fd : hand_on(fd);
		if (send_with(PEER_RESULTS, &result, sizeof(result), -1) < 0)
			return;
	}
}

static void become(int results, int files)
{
	prctl(PR_SET_NAME, "cgpud-copies");
	/* Out of the way of the other. */
	files = fcntl(files, F_DUPFD, PEER_FILES + 1);
	if (files >= 0 && dup2(results, PEER_RESULTS) == PEER_RESULTS && dup2(files, PEER_FILES) == PEER_FILES &&
		syscall(SYS_close_range, PEER_FILES + 1, ~0u, 0) == 0 && privilege_drop() == 0)
		serve();
	_exit(0);
}

/* --- this one --- */

static long fork_raw(void)
{
	return syscall(SYS_clone, 0, 0, 0, 0, 0);
}

/* By a child that ends at once, so that nobody here has to wait for the end of the process. */
static int start_process(int results, int files)
{
	long child = fork_raw();
	int status = 0;

	if (child == 0) {
		long second = fork_raw();

		if (second == 0)
			become(results, files);
		_exit(second < 0);
	}
	if (child < 0)
		return -errno;
	if (waitpid((pid_t)child, &status, __WALL) < 0)
		return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EAGAIN;
}

static int start_with(int results[2], int files[2])
{
	struct timeval poll_time = { .tv_usec = POLL_MS * 1000 };

	if (setsockopt(results[0], SOL_SOCKET, SO_RCVTIMEO, &poll_time, sizeof(poll_time)) < 0)
		return -errno;
	return start_process(results[1], files[1]);
}

static int start(void)
{
	int results[2], files[2] = { -1, -1 }, r;

	if (own_results >= 0)
		return 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, results) < 0)
		return -errno;
	r = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, files) < 0 ? -errno : start_with(results, files);
	close(results[1]);
	close_any(files[1]);
	if (r < 0) {
		close(results[0]);
		close_any(files[0]);
		return r;
	}
	own_results = results[0];
	own_files = files[0];
	return 0;
}

void copies_end(void)
{
	close_one(&own_results);
	close_one(&own_files);
}

/* A process that is not waited for ends by itself, as soon as it can. */
static int give_up(int error)
{
	copies_end();
	return error;
}

static int take_file(void)
{
	s32 result;
	int fd;

	if (receive_with(own_files, &result, sizeof(result), MSG_DONTWAIT, &fd) != sizeof(result))
		return give_up(-EPIPE);
	return fd < 0 ? -EMFILE : fd;
}

static int await(const atomic_uint *stopping, u32 wait_ms)
{
	u64 until = clock_ms() + wait_ms;
	u32 polls = 0;
	s32 result;

	for (;;) {
		ssize_t n = recv(own_results, &result, sizeof(result), 0);

		if (n == sizeof(result))
			return result < 0 ? result : take_file();
		if (n >= 0 || (errno != EAGAIN && errno != EINTR))
			return give_up(-EPIPE);
		if (atomic_load(stopping) && ++polls >= LAST_POLLS)
			return give_up(-EINTR);
		if (wait_ms && clock_ms() >= until)
			return give_up(-ETIMEDOUT);
	}
}

int copies_take(int pidfd, int number, const struct identity *node, const atomic_uint *stopping, u32 wait_ms)
{
	struct request request = { .number = number, .node = *node };
	int r = start();

	if (r == 0 && send_with(own_results, &request, sizeof(request), pidfd) < 0) {
		/* Somebody has killed it. */
		copies_end();
		r = start();
		if (r == 0 && send_with(own_results, &request, sizeof(request), pidfd) < 0)
			r = give_up(-EPIPE);
	}
	return r < 0 ? r : await(stopping, wait_ms);
}
