// SPDX-License-Identifier: Apache-2.0
/*
 * keep_descriptor [--dev DIR] helper|parked|cycle PIECE: fills its slice in pieces, then ends by SIGKILL, while its
 * control file stays open
 *   helper  in a child with a session of its own, which uses nothing of it
 *   parked  in flight, in a socket whose ends a child has; the child has not received it, until it is sent a line
 *   cycle   in flight in a socket that is itself in flight there, and that nobody has any more
 * Prints "keeping", with what it had got, once the process that got it has ended; the child ends with standard input.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"

#define MOST 3

union control {
	struct cmsghdr head;
	char space[CMSG_SPACE(MOST * sizeof(int))];
};

static bool post(int sock, const int *files, size_t count)
{
	union control control = { .head = { CMSG_LEN(count * sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	struct iovec data = { (char[1]){ 'x' }, 1 };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control };

	message.msg_controllen = CMSG_SPACE(count * sizeof(int));
	memcpy(CMSG_DATA(&control.head), files, count * sizeof(int));
	return sendmsg(sock, &message, 0) == 1;
}

/* What was parked: nvidiactl comes first. */
static int fetch(int sock)
{
	union control control = { 0 };
	char byte;
	struct iovec data = { &byte, 1 };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control };
	int ctl;

	message.msg_controllen = sizeof(control.space);
	if (recvmsg(sock, &message, 0) != 1)
		return -1;
	memcpy(&ctl, CMSG_DATA(&control.head), sizeof(ctl));
	return ctl;
}

/* The one that has filled the slice ends for good, and the one that stays says so. */
static void outlive(pid_t other, uint64_t bytes)
{
	setsid();
	kill(other, SIGKILL);
	while (getppid() == other)
		usleep(1000);
	printf("keeping bytes=%llu\n", (unsigned long long)bytes);
	client_next();
}

static void helper(uint64_t bytes)
{
	pid_t self = getpid();

	if (fork() == 0)
		outlive(self, bytes);
	else
		pause();
}

static void parked(struct session *session, uint64_t bytes)
{
	int pair[2], files[2] = { session->ctl, session->card };
	uint32_t handle = session->held[0].handle;
	pid_t self = getpid();

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || !post(pair[0], files, 2))
		return;
	if (fork() != 0)
		pause();
	close(session->card);
	close(session->ctl);
	outlive(self, bytes);
	session->ctl = fetch(pair[1]);
	printf("fetched status=0x%x\n", session_free(session, handle));
	client_next();
}

static void cycle(const struct session *session, uint64_t bytes)
{
	int pair[2], files[MOST] = { session->ctl, session->card, -1 };

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return;
	files[2] = pair[1];
	if (!post(pair[0], files, MOST))
		return;
	printf("keeping bytes=%llu\n", (unsigned long long)bytes);
	client_next();
	kill(getpid(), SIGKILL);
}

static void take(const struct settings *settings, const char *how, uint64_t piece)
{
	struct session session;
	uint64_t bytes;

	client_open(&session, settings);
	bytes = client_fill(&session, piece);
	if (strcmp(how, "helper") == 0)
		helper(bytes);
	if (strcmp(how, "parked") == 0)
		parked(&session, bytes);
	if (strcmp(how, "cycle") == 0)
		cycle(&session, bytes);
	_exit(0);
}

/* The first process has no file of the driver, and waits for all others: who started it sees when they have ended. */
int main(int argc, char **argv)
{
	struct settings settings;

	client_begin(&settings, &argc, &argv);
	if (argc != 2)
		return 2;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (fork() == 0)
		take(&settings, argv[0], strtoull(argv[1], NULL, 0));
	while (wait(NULL) > 0)
		;
	return 0;
}
