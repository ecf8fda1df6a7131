// SPDX-License-Identifier: Apache-2.0
/*
 * Has the wrapper's server (oci_runtime/server.py) prepare the bundle, in place of a Python of our own. One connection
 * serves one start; each message is one packet:
 *
 *   server    "ready"                        it is of this version and sees the same files
 *   launcher  b or -, then each argument, with a zero byte before each; the current directory as a descriptor
 *   server    the path of the low-level runtime; the bundle is prepared now
 *   launcher  "back", only where that runtime cannot be started; or nothing, and the connection ends
 *   server    "done"; the bundle is as it was
 *
 * A server that ends the connection has left the bundle as it was, or prepared: Python can start from both.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "launcher.h"

#define READY "ready"
#define BACK "back"
/* As in oci_runtime/server.py. */
#define MESSAGE_MAX (1u << 16)
/* A server that runs is ready in a millisecond. Nothing has been asked of it yet when this time is over. */
#define READY_TIMEOUT_S 1

static int connect_server(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = CGPU_SERVER_PATH };
	struct timeval timeout = { .tv_sec = READY_TIMEOUT_S };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) == 0 &&
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) == 0 &&
		connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	close(fd);
	return -1;
}

static bool is_ready(int fd)
{
	struct timeval none = { .tv_sec = 0 };
	char answer[sizeof(READY)];

	if (recv(fd, answer, sizeof(answer), 0) != sizeof(READY) - 1 || memcmp(answer, READY, sizeof(READY) - 1) != 0)
		return false;
	return setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none)) == 0;
}

static size_t put_arguments(char message[MESSAGE_MAX], int argc, char *const *argv, bool below)
{
	size_t size = 1;

	message[0] = below ? 'b' : '-';
	for (int i = 1; i < argc; i++) {
		size_t length = strlen(argv[i]);

		if (length + 1 > MESSAGE_MAX - size)
			return 0;
		message[size] = '\0';
		memcpy(message + size + 1, argv[i], length);
		size += length + 1;
	}
	return size;
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

static bool ask(int fd, int argc, char *const *argv, bool below, char runtime[PATH_MAX])
{
	char *message = malloc(MESSAGE_MAX);
	size_t size = message ? put_arguments(message, argc, argv, below) : 0;
	bool sent = size && is_ready(fd) && send_call(fd, message, size);
	ssize_t length;

	free(message);
	if (!sent)
		return false;
	length = recv(fd, runtime, PATH_MAX - 1, 0);
	if (length <= 0 || runtime[0] != '/')
		return false;
	runtime[length] = '\0';
	return true;
}

int launcher_ask_server(int argc, char *const *argv, bool below, char runtime[PATH_MAX])
{
	int fd = connect_server();

	if (fd >= 0 && !ask(fd, argc, argv, below, runtime)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

void launcher_put_back(int fd)
{
	char answer[8];

	if (send(fd, BACK, sizeof(BACK) - 1, MSG_NOSIGNAL) > 0)
		(void)!recv(fd, answer, sizeof(answer), 0);
	close(fd);
}
