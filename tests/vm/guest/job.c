// SPDX-License-Identifier: Apache-2.0
/* Commands: started, fed, read, killed, reaped. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent.h"

struct job jobs[MAX_JOBS];

static struct job *find_job(uint32_t id)
{
	for (int i = 0; i < MAX_JOBS; i++)
		if (jobs[i].used && jobs[i].id == id)
			return &jobs[i];
	return NULL;
}

static struct job *free_job(void)
{
	for (int i = 0; i < MAX_JOBS; i++)
		if (!jobs[i].used)
			return &jobs[i];
	return NULL;
}

static void close_end(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* The pipes may outlive the process: a container that it left behind still writes to them. */
static void forget_if_done(struct job *job)
{
	if (!job->pid)
		close_end(&job->in);
	if (job->pid || job->out >= 0 || job->err >= 0)
		return;
	free(job->pending);
	memset(job, 0, sizeof(*job));
}

/* Split `len` bytes into strings; the result is one array with a NULL after argv and one after envp. */
static char **split_strings(const char *payload, size_t len, char ***envp)
{
	uint32_t counts[2];
	const char *at = payload + sizeof(counts), *end = payload + len;
	char **strings;

	if (len < sizeof(counts))
		return NULL;
	memcpy(counts, payload, sizeof(counts));
	if (!counts[0] || counts[0] > len || counts[1] > len)
		return NULL;
	strings = calloc((size_t)counts[0] + counts[1] + 2, sizeof(*strings));
	*envp = strings + counts[0] + 1;
	for (uint32_t i = 0; i < counts[0] + counts[1]; i++) {
		const char *stop = memchr(at, 0, (size_t)(end - at));

		if (!stop) {
			free(strings);
			return NULL;
		}
		strings[i < counts[0] ? i : i + 1] = (char *)at;
		at = stop + 1;
	}
	return strings;
}

_Noreturn static void become(int ends[3], char **argv, char **envp)
{
	sigset_t none;

	signal(SIGPIPE, SIG_DFL);
	for (int fd = 0; fd < 3; fd++)
		if (dup2(ends[fd], fd) < 0)
			_exit(127);
	setsid();
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (int i = 0; envp[i]; i++)
		putenv(envp[i]);
	execvp(argv[0], argv);
	fprintf(stderr, "cannot run %s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

static int pipe_pair(int *child, int *ours, bool child_reads)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return -1;
	*child = ends[child_reads ? 0 : 1];
	*ours = ends[child_reads ? 1 : 0];
	return fcntl(*ours, F_SETFL, O_NONBLOCK);
}

static void refuse(uint32_t id, const char *why)
{
	port_send(id, FRAME_ERR, why, strlen(why));
	port_send_number(id, FRAME_EXIT, 126 << 8);
}

void job_start(uint32_t id, const char *payload, size_t len)
{
	struct job *job = free_job();
	char **envp, **argv = split_strings(payload, len, &envp);
	int ends[3];

	if (!job || !argv) {
		free(argv);
		refuse(id, job ? "agent: malformed command\n" : "agent: too many commands at once\n");
		return;
	}
	*job = (struct job){ .used = true, .id = id };
	if (pipe_pair(&ends[0], &job->in, true) || pipe_pair(&ends[1], &job->out, false) ||
		pipe_pair(&ends[2], &job->err, false))
		machine_end("out of descriptors");
	job->pid = fork();
	if (!job->pid)
		become(ends, argv, envp);
	for (int i = 0; i < 3; i++)
		close(ends[i]);
	free(argv);
	if (job->pid > 0) {
		port_send_number(id, FRAME_STARTED, (uint32_t)job->pid);
		return;
	}
	job->pid = 0;
	close_end(&job->out);
	close_end(&job->err);
	forget_if_done(job);
	refuse(id, "agent: fork failed\n");
}

void job_write(struct job *job)
{
	ssize_t done = job->pending_len ? write(job->in, job->pending, job->pending_len) : 0;

	if (done < 0 && errno != EAGAIN && errno != EINTR) {
		job->pending_len = 0; /* it reads no more */
		close_end(&job->in);
		return;
	}
	if (done > 0) {
		job->pending_len -= (size_t)done;
		memmove(job->pending, job->pending + done, job->pending_len);
	}
	if (!job->pending_len && job->in_ends)
		close_end(&job->in);
}

void job_input(uint32_t id, const char *data, size_t len)
{
	struct job *job = find_job(id);

	if (!job || job->in < 0)
		return;
	if (len) {
		job->pending = realloc(job->pending, job->pending_len + len);
		if (!job->pending)
			machine_end("out of memory");
		memcpy(job->pending + job->pending_len, data, len);
		job->pending_len += len;
	} else {
		job->in_ends = true;
	}
	job_write(job);
}

void job_kill(uint32_t id, int signal)
{
	struct job *job = find_job(id);

	/* A child that has just been forked has no group yet. */
	if (job && job->pid && kill(-job->pid, signal))
		kill(job->pid, signal);
}

void job_read(struct job *job, int *fd, uint32_t type)
{
	static char chunk[CHUNK];
	ssize_t done = read(*fd, chunk, sizeof(chunk));

	if (done > 0) {
		port_send(job->id, type, chunk, (size_t)done);
		return;
	}
	if (done < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	close_end(fd);
	forget_if_done(job);
}

/* All output of the process itself is in its pipes by now. */
static void drain(struct job *job, int *fd, uint32_t type)
{
	static char chunk[CHUNK];
	ssize_t done;

	while (*fd >= 0 && (done = read(*fd, chunk, sizeof(chunk))) > 0)
		port_send(job->id, type, chunk, (size_t)done);
}

void jobs_reap(void)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (int i = 0; i < MAX_JOBS; i++) {
			struct job *job = &jobs[i];

			if (!job->used || job->pid != pid)
				continue;
			drain(job, &job->out, FRAME_OUT);
			drain(job, &job->err, FRAME_ERR);
			port_send_number(job->id, FRAME_EXIT, (uint32_t)status);
			job->pid = 0;
			forget_if_done(job);
			break;
		}
	}
}
