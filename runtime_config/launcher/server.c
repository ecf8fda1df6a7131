// SPDX-License-Identifier: Apache-2.0
/*
 * Has the wrapper's server (oci_runtime/server.py) work out the new config.json, in place of a Python of our own. One
 * connection serves one start; each message is one packet:
 *
 *   server    "ready 3"                      it is of this version and sees the same files
 *   launcher  b or -, the command, the bundle, the container's id, with a zero byte between; the current directory as a
 *             descriptor
 *   server    the path of the low-level runtime; three descriptors, or none where nothing is to change: the new
 *             config.json, the bundle, and config.json as it was read
 *
 * The server changes nothing in the bundle: the launcher does (replace.c), once it has the whole answer. So it may give up
 * on a server at any moment, and Python starts from the bundle as it was: a server that was stopped and goes on later finds
 * the connection closed, and its answer is lost.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "launcher.h"

/* The number is that of the messages' form: a launcher and a server that write others, as while an upgrade replaces files,
 * would take "nothing is to change" out of an answer that is none. */
#define READY "ready 3"
/* As in oci_runtime/server.py. */
#define MESSAGE_MAX (1u << 16)
/* A running server is ready in a millisecond. When this time is over, no request has been sent yet. */
#define READY_TIMEOUT_S 1
#define DESCRIPTORS 3

/* Bound each later wait, for the server to take or to give something. */
static bool wait_at_most(int fd, int option, int seconds)
{
	struct timeval timeout = { .tv_sec = seconds };

	return setsockopt(fd, SOL_SOCKET, option, &timeout, sizeof(timeout)) == 0;
}

static int connect_server(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = CGPU_SERVER_PATH };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	if (wait_at_most(fd, SO_SNDTIMEO, READY_TIMEOUT_S) && wait_at_most(fd, SO_RCVTIMEO, READY_TIMEOUT_S) &&
		connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	close(fd);
	return -1;
}

static bool is_ready(int fd)
{
	char answer[sizeof(READY)];

	return recv(fd, answer, sizeof(answer), 0) == sizeof(READY) - 1 &&
		memcmp(answer, READY, sizeof(READY) - 1) == 0;
}

/* Returns the size of the message, 0 where a part has too many bytes. */
static size_t put_call(char message[MESSAGE_MAX], const struct launcher_call *call, bool below)
{
	int size = snprintf(message, MESSAGE_MAX, "%c%c%s%c%s%c%s", below ? 'b' : '-', 0, call->command, 0,
		call->bundle, 0, call->container);

	return size < (int)MESSAGE_MAX ? (size_t)size : 0;
}

static bool send_call(int fd, char *message, size_t size)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec part = { .iov_base = message, .iov_len = size };
	struct msghdr header = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
	};
	struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
	int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	bool sent;

	if (here < 0)
		return false;
	rights->cmsg_level = SOL_SOCKET;
	rights->cmsg_type = SCM_RIGHTS;
	rights->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(rights), &here, sizeof(int));
	sent = sendmsg(fd, &header, MSG_NOSIGNAL) == (ssize_t)size;
	close(here);
	return sent;
}

/* Take the descriptors of an answer: all of them, or none. */
static bool take_descriptors(struct msghdr *header, struct launcher_prepared *prepared)
{
	struct cmsghdr *rights = CMSG_FIRSTHDR(header);
	int found[DESCRIPTORS];

	if (header->msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		return false;
	if (!rights)
		return true;
	if (rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS ||
		rights->cmsg_len != CMSG_LEN(sizeof(found)))
		return false;
	memcpy(found, CMSG_DATA(rights), sizeof(found));
	prepared->edited = found[0];
	prepared->folder = found[1];
	prepared->former = found[2];
	return true;
}

/* Descriptors of a refused answer stay open until this process becomes another program. */
static bool receive(int fd, struct launcher_prepared *prepared)
{
	char control[CMSG_SPACE(DESCRIPTORS * sizeof(int))] = { 0 };
	struct iovec part = { .iov_base = prepared->runtime, .iov_len = PATH_MAX - 1 };
	struct msghdr header = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
	};
	ssize_t length = recvmsg(fd, &header, MSG_CMSG_CLOEXEC);

	prepared->edited = -1;
	if (length <= 0 || prepared->runtime[0] != '/' || !take_descriptors(&header, prepared))
		return false;
	prepared->runtime[length] = '\0';
	return true;
}

bool launcher_ask_server(const struct launcher_call *call, bool below, struct launcher_prepared *prepared)
{
	char *message = malloc(MESSAGE_MAX);
	size_t size = message ? put_call(message, call, below) : 0;
	int fd = size ? connect_server() : -1;
	bool answered = fd >= 0 && is_ready(fd) && send_call(fd, message, size) &&
		wait_at_most(fd, SO_RCVTIMEO, CGPU_ANSWER_TIMEOUT_S) && receive(fd, prepared);

	free(message);
	if (fd >= 0)
		close(fd);
	return answered;
}
