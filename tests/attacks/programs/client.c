// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#include "client.h"

/* What cgpu-probe's files print steps with; there are none here. */
void report(uint32_t status, const char *format, ...)
{
	(void)status;
	(void)format;
}

void client_begin(struct settings *settings, int *argc, char ***argv)
{
	int ctl;

	*settings = (struct settings){ .dev = "/dev", .magic = NV_IOCTL_MAGIC, .direction = 3, .own_handles = true };
	setvbuf(stdout, NULL, _IOLBF, 0);
	++*argv;
	--*argc;
	if (*argc > 1 && strcmp((*argv)[0], "--dev") == 0) {
		settings->dev = (*argv)[1];
		*argv += 2;
		*argc -= 2;
	}
	ctl = driver_open(settings, "nvidiactl");
	if (ctl < 0 || !driver_version(settings, ctl)) {
		fprintf(stderr, "%s/nvidiactl: %s\n", settings->dev, strerror(errno));
		exit(1);
	}
	close(ctl);
}

void client_open(struct session *session, const struct settings *settings)
{
	uint32_t status;

	session_init(session, settings, 0);
	status = session_open(session);
	if (status != NV_OK) {
		fprintf(stderr, "client: status 0x%x: %s\n", status, strerror(errno));
		exit(1);
	}
}

uint64_t client_fill(struct session *session, uint64_t piece)
{
	uint64_t bytes, count;

	memory_fill(session, piece, &bytes, &count);
	return bytes;
}

void client_next(void)
{
	char byte;

	while (read(STDIN_FILENO, &byte, 1) == 1)
		if (byte == '\n')
			return;
	_exit(0);
}

/* A signal handler has no other way to count. */
static volatile sig_atomic_t alarms;

static void count_alarm(int number)
{
	(void)number;
	alarms++;
}

long client_alarms(void)
{
	return (long)alarms;
}

void client_rain(int flags, int microseconds)
{
	struct sigaction action = { .sa_handler = count_alarm, .sa_flags = flags };
	struct itimerval timer = { .it_interval.tv_usec = microseconds };

	sigaction(SIGALRM, &action, NULL);
	timer.it_value = timer.it_interval;
	setitimer(ITIMER_REAL, &timer, NULL);
}
