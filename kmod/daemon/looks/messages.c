// SPDX-License-Identifier: Apache-2.0
/* Passes turns by a futex, and sends and receives descriptors by sockets that keep each message whole. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "messages.h"
#include "privilege.h"

/* The other one is another process: not the private kind of futex. */
void mailbox_pass(struct mailbox *box, enum turn turn)
{
	atomic_store(&box->turn, turn);
	syscall(SYS_futex, &box->turn, FUTEX_WAKE, 1, NULL, NULL, 0);
}

int mailbox_await(struct mailbox *box, enum turn turn, u32 ms)
{
	struct timespec wait = clock_time(ms * 1000000ull);
	u32 now = atomic_load(&box->turn);

	while (now != turn) {
		if (syscall(SYS_futex, &box->turn, FUTEX_WAIT, now, ms ? &wait : NULL, NULL, 0) < 0 &&
			errno == ETIMEDOUT)
			return -ETIMEDOUT;
		now = atomic_load(&box->turn);
	}
	return 0;
}

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
	struct iovec part = { (void *)(uintptr_t)&message->serial, sizeof(message->serial) };
	struct msghdr out = { .msg_iov = &part, .msg_iovlen = 1 };
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
	struct iovec part = { &message->serial, sizeof(message->serial) };
	union control control = { 0 };
	struct msghdr in = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control.space)
	};
	ssize_t n = recvmsg(sock, &in, MSG_CMSG_CLOEXEC | flags);

	if (n < 0)
		return -errno;
	take_files(message, &in, &control);
	if ((size_t)n == sizeof(message->serial) && !(in.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		return 0;
	while (message->files)
		close(message->file[--message->files]);
	return n ? -EPROTO : -EPIPE;
}
