// SPDX-License-Identifier: Apache-2.0
/* Sends and receives messages with descriptors, by sockets that keep each message whole. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "messages.h"
#include "privilege.h"

union control {
	struct cmsghdr head;
	char space[CMSG_SPACE(MESSAGE_FILES * sizeof(int))];
};

/* Containers' root may have as many descriptors in flight as the kernel lets this user have. */
static int send_counted(int sock, const struct msghdr *out)
{
	int r = sendmsg(sock, out, MSG_NOSIGNAL) < 0 ? -errno : 0;

	if (r != -ETOOMANYREFS || privilege_raise(PRIVILEGE_SENDING) < 0)
		return r;
	r = sendmsg(sock, out, MSG_NOSIGNAL) < 0 ? -errno : 0;
	privilege_lower();
	return r;
}

int message_send(int sock, const struct message *message)
{
	struct iovec part[2] = { { message->head, message->head_bytes }, { message->data, message->data_bytes } };
	struct msghdr out = { .msg_iov = part, .msg_iovlen = message->data_bytes ? 2 : 1 };
	size_t bytes = message->files * sizeof(int);
	union control control = { 0 };

	if (bytes) {
		control.head = (struct cmsghdr){ CMSG_LEN(bytes), SOL_SOCKET, SCM_RIGHTS };
		memcpy(CMSG_DATA(&control.head), message->file, bytes);
		out.msg_control = &control;
		out.msg_controllen = CMSG_SPACE(bytes);
	}
	return send_counted(sock, &out);
}

static void take_files(struct message *message, const struct msghdr *in, const union control *control)
{
	size_t bytes;

	message->files = 0;
	if (in->msg_controllen < CMSG_LEN(sizeof(int)) || control->head.cmsg_level != SOL_SOCKET ||
		control->head.cmsg_type != SCM_RIGHTS)
		return;
	bytes = control->head.cmsg_len - CMSG_LEN(0);
	if (bytes > sizeof(message->file))
		bytes = sizeof(message->file);
	memcpy(message->file, CMSG_DATA(&control->head), bytes);
	message->files = (u32)(bytes / sizeof(int));
}

int message_receive(int sock, struct message *message, int flags)
{
	struct iovec part[2] = { { message->head, message->head_bytes }, { message->data, message->data_bytes } };
	union control control = { 0 };
	struct msghdr in = { .msg_iov = part,
		.msg_iovlen = message->data_bytes ? 2 : 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control.space) };
	ssize_t n = recvmsg(sock, &in, MSG_CMSG_CLOEXEC | flags);

	if (n < 0)
		return -errno;
	take_files(message, &in, &control);
	if ((size_t)n >= message->head_bytes && !(in.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
		message->data_bytes = (size_t)n - message->head_bytes;
		return 0;
	}
	while (message->files)
		close(message->file[--message->files]);
	return n ? -EPROTO : -EPIPE;
}
