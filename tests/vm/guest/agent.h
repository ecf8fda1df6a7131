/* SPDX-License-Identifier: Apache-2.0 */
#ifndef AGENT_H
#define AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A frame: this header, little endian, then `length` bytes. tests/vm/harness/channel.py has the other side. */
struct frame {
	uint32_t length;
	uint32_t job;
	uint32_t type;
};

enum {
	/* from the host */
	FRAME_RUN = 'R', /* u32 argc, u32 envc, then as many strings, each with its zero byte */
	FRAME_INPUT = 'I', /* bytes for standard input; none: its end */
	FRAME_KILL = 'K', /* u32 signal, for the whole process group */
	FRAME_SYNC = 'S', /* answered by the same, after all that the kernel has said until now */
	/* to the host */
	FRAME_HELLO = 'H',
	FRAME_STARTED = 'P', /* u32 pid */
	FRAME_OUT = 'O',
	FRAME_ERR = 'E',
	FRAME_EXIT = 'X', /* u32 status as wait() gives it */
	FRAME_LOG = 'L', /* records of /dev/kmsg, each with a zero byte */
};

enum { MAX_JOBS = 128, CHUNK = 32768 };

/* A command and the pipes to it; a descriptor is -1 once it is closed. */
struct job {
	uint32_t id;
	pid_t pid; /* 0 once it has ended */
	int in, out, err;
	bool used;
	bool in_ends; /* close `in` when all of `pending` is written */
	char *pending;
	size_t pending_len;
};

extern struct job jobs[MAX_JOBS];

void port_open(const char *path);
int port_fd(void);
void port_send(uint32_t id, uint32_t type, const void *data, size_t len);
void port_send_number(uint32_t id, uint32_t type, uint32_t number);
/* Read what is there and call `handle` for every whole frame. */
void port_receive(void (*handle)(const struct frame *frame, const char *payload));

void log_open(void);
int log_fd(void);
void log_forward(void);

void job_start(uint32_t id, const char *payload, size_t len);
void job_input(uint32_t id, const char *data, size_t len);
void job_kill(uint32_t id, int signal);
void job_write(struct job *job);
void job_read(struct job *job, int *fd, uint32_t type);
void jobs_reap(void);

/* Ends the machine: nothing of a test's may outlive it. */
_Noreturn void machine_end(const char *why);

#endif
