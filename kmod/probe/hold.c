// SPDX-License-Identifier: Apache-2.0
/* Waits, and keeps the memory meanwhile. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "probe.h"

/* Before the line that others wait for, as they may send a signal at once. */
static int catch_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	sigprocmask(SIG_BLOCK, set, NULL);
	return signalfd(-1, set, SFD_CLOEXEC);
}

/* Waits for the time limit or, without one, for the end of stdin; SIGTERM or SIGINT end the wait in any case. */
static void wait_for_end(int signals, int timeout)
{
	struct pollfd files[2] = { { .fd = signals, .events = POLLIN }, { .fd = STDIN_FILENO, .events = POLLIN } };
	char buffer[256];

	while (poll(files, timeout < 0 ? 2 : 1, timeout) != 0) {
		if (files[0].revents)
			break;
		if (timeout < 0 && files[1].revents && read(STDIN_FILENO, buffer, sizeof(buffer)) <= 0)
			break;
	}
}

/* Seconds, with a fraction if wanted; without a value until stdin ends. */
uint32_t step_hold(struct probe *probe, const char *value)
{
	double seconds = -1;
	sigset_t set;
	int signals;
	char *end;

	(void)probe;
	if (value) {
		seconds = strtod(value, &end);
		if (end == value || *end || !(seconds >= 0 && seconds < 1000000))
			return NOT_UNDERSTOOD;
	}
	signals = catch_signals(&set);
	printf("hold\n");
	fflush(stdout);
	wait_for_end(signals, value ? (int)(seconds * 1000) : -1);
	close(signals);
	/* A signal that came stays pending and must not end the steps that follow. */
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	printf("held\n");
	return NO_ANSWER;
}
