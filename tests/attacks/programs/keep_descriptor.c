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

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || !client_send_files(pair[0], files, 2))
		return;
	if (fork() != 0)
		pause();
	close(session->card);
	close(session->ctl);
	outlive(self, bytes);
	/* nvidiactl comes first. */
	if (!client_receive_files(pair[1], &session->ctl, 1))
		session->ctl = -1;
	printf("fetched status=0x%x\n", session_free(session, handle));
	client_next();
}

static void cycle(const struct session *session, uint64_t bytes)
{
	int pair[2], files[3] = { session->ctl, session->card, -1 };

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return;
	files[2] = pair[1];
	if (!client_send_files(pair[0], files, 3))
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

/* The first process has no file of the driver, and waits for all others: its starter sees when they have ended. */
int main(int argc, char **argv)
{
	struct settings settings;

	client_begin(&settings, &argc, &argv, 2);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (fork() == 0)
		take(&settings, argv[0], strtoull(argv[1], NULL, 0));
	while (wait(NULL) > 0)
		;
	return 0;
}
