// SPDX-License-Identifier: Apache-2.0
/*
 * ask SOCKET TYPE MESSAGE...: send messages to a Unix socket, each with the end of a pipe, and print what is answered: on
 * the socket, or through the pipe where TYPE is dgram. TYPE: stream or dgram.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PATIENCE_MS 60000

static ssize_t send_with(int fd, const char *text, int passed)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec part = { .iov_base = (void *)text, .iov_len = strlen(text) };
	struct msghdr header = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
	};
	struct cmsghdr *rights = CMSG_FIRSTHDR(&header);

	rights->cmsg_level = SOL_SOCKET;
	rights->cmsg_type = SCM_RIGHTS;
	rights->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(rights), &passed, sizeof(int));
	return sendmsg(fd, &header, MSG_NOSIGNAL);
}

/* Wait until the server answers or closes its end. */
static void print_answer(int fd)
{
	struct pollfd waiting = { fd, POLLIN, 0 };
	char text[512] = "";

	if (poll(&waiting, 1, PATIENCE_MS) < 1) {
		printf("answered nothing\n");
		return;
	}
	if (read(fd, text, sizeof(text) - 1) < 0)
		strcpy(text, strerror(errno));
	text[strcspn(text, "\n")] = '\0';
	printf("answered [%s]\n", text);
}

static void ask(const char *path, int type, const char *text)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0), ends[2] = { -1, -1 };

	strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
	if (fd < 0 || pipe(ends) < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		printf("connected: %s\n", strerror(errno));
		return;
	}
	printf("sent: %s\n", send_with(fd, text, ends[1]) < 0 ? strerror(errno) : "all");
	close(ends[1]);
	print_answer(type == SOCK_DGRAM ? ends[0] : fd);
	close(ends[0]);
	close(fd);
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	printf("uid=%d\n", (int)getuid());
	for (int i = 3; i < argc; i++)
		ask(argv[1], strcmp(argv[2], "dgram") == 0 ? SOCK_DGRAM : SOCK_STREAM, argv[i]);
	return 0;
}
