// SPDX-License-Identifier: Apache-2.0
/*
 * The guest's first process: runs commands for the host and sends it what the kernel logs. Static and small, since
 * every instruction of it is emulated.
 *
 * usage: agent PORT
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent.h"

static int kernel_log;
static const char sync_mark[] = "<7>agent: sync\n"; /* the host drops it */

_Noreturn void machine_end(const char *why)
{
	fprintf(stderr, "agent: %s\n", why);
	reboot(RB_AUTOBOOT);
	for (;;)
		pause();
}

void log_open(void)
{
	kernel_log = open("/dev/kmsg", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (kernel_log < 0)
		machine_end("cannot open /dev/kmsg");
}

int log_fd(void)
{
	return kernel_log;
}

void log_forward(void)
{
	enum { RECORD = 8192 }; /* the kernel gives no longer one */
	static char records[CHUNK];
	size_t fill = 0;

	for (;;) {
		ssize_t done = read(kernel_log, records + fill, RECORD);

		if (done < 0 && errno == EPIPE)
			continue; /* some were overwritten; the sequence numbers show it */
		if (done <= 0)
			break;
		fill += (size_t)done;
		records[fill++] = 0;
		if (sizeof(records) - fill <= RECORD) {
			port_send(0, FRAME_LOG, records, fill);
			fill = 0;
		}
	}
	if (fill)
		port_send(0, FRAME_LOG, records, fill);
}

static void handle(const struct frame *frame, const char *payload)
{
	uint32_t number = 0;

	switch (frame->type) {
	case FRAME_RUN:
		job_start(frame->job, payload, frame->length);
		break;
	case FRAME_INPUT:
		job_input(frame->job, payload, frame->length);
		break;
	case FRAME_KILL:
		memcpy(&number, payload, frame->length < sizeof(number) ? frame->length : sizeof(number));
		job_kill(frame->job, (int)number);
		break;
	case FRAME_SYNC:
		/* A message without a line's end is held back until another follows. */
		if (write(kernel_log, sync_mark, strlen(sync_mark)) < 0)
			fprintf(stderr, "agent: /dev/kmsg: %s\n", strerror(errno));
		log_forward();
		port_send(frame->job, FRAME_SYNC, NULL, 0);
		break;
	}
}

static int child_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void serve_jobs(const struct pollfd *polled)
{
	for (int i = 0; i < MAX_JOBS; i++, polled += 3) {
		if (jobs[i].used && jobs[i].in >= 0 && polled[0].revents)
			job_write(&jobs[i]);
		if (jobs[i].used && jobs[i].out >= 0 && polled[1].revents)
			job_read(&jobs[i], &jobs[i].out, FRAME_OUT);
		if (jobs[i].used && jobs[i].err >= 0 && polled[2].revents)
			job_read(&jobs[i], &jobs[i].err, FRAME_ERR);
	}
}

static void watch_jobs(struct pollfd *polled)
{
	for (int i = 0; i < MAX_JOBS; i++, polled += 3) {
		const struct job *job = &jobs[i];
		bool writes = job->used && job->pending_len;

		polled[0] = (struct pollfd){ .fd = writes ? job->in : -1, .events = POLLOUT };
		polled[1] = (struct pollfd){ .fd = job->used ? job->out : -1, .events = POLLIN };
		polled[2] = (struct pollfd){ .fd = job->used ? job->err : -1, .events = POLLIN };
	}
}

int main(int argc, char **argv)
{
	static struct pollfd polled[3 + 3 * MAX_JOBS];
	struct signalfd_siginfo info;
	int signals = child_signals();

	if (argc != 2 || signals < 0)
		machine_end("usage: agent PORT");
	port_open(argv[1]);
	log_open();
	port_send(0, FRAME_HELLO, NULL, 0);
	for (;;) {
		polled[0] = (struct pollfd){ .fd = port_fd(), .events = POLLIN };
		polled[1] = (struct pollfd){ .fd = log_fd(), .events = POLLIN };
		polled[2] = (struct pollfd){ .fd = signals, .events = POLLIN };
		watch_jobs(polled + 3);
		if (poll(polled, 3 + 3 * MAX_JOBS, -1) < 0)
			continue;
		if (polled[1].revents)
			log_forward();
		serve_jobs(polled + 3);
		if (polled[2].revents && read(signals, &info, sizeof(info)) > 0)
			jobs_reap();
		if (polled[0].revents)
			port_receive(handle);
	}
}
