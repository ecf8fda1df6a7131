// SPDX-License-Identifier: Apache-2.0
/* Starts and ends helpers, by a spawner. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "descriptors.h"
#include "helper.h"
#include "helper_work.h"
#include "messages.h"
#include "privilege.h"
#include "processes.h"

#define SPAWNER_NAME "cgpud-spawner"
#define SPAWNER_SOCK 0
#define SPAWNER_WAIT_S 2
#define LOOKING (PRIVILEGES_ALL & ~(1u << PRIVILEGE_TRACING))

/* --- the spawner and its children: nothing of the engine is used here but what they are given --- */

/* Descriptors 0 and on become these; all others are closed. */
static int keep_only(const int *fds, int count)
{
	int i, high[MESSAGE_FILES];

	for (i = 0; i < count; i++) {
		/* Out of the way of the others. */
		high[i] = fcntl(fds[i], F_DUPFD, count);
		if (high[i] < 0)
			return -errno;
	}
	for (i = 0; i < count; i++)
		if (dup2(high[i], i) != i)
			return -errno;
	return syscall(SYS_close_range, count, ~0u, 0) < 0 ? -errno : 0;
}

static void become_helper(const int *socks, s32 kind)
{
	prctl(PR_SET_NAME, HELPER_NAME);
	/* What libc has to say goes where it ends this process, and not into what is opened next. */
	if (keep_only(socks, 2) == 0 && dup2(HELPER_RESULTS, STDERR_FILENO) == STDERR_FILENO &&
		privilege_drop(kind == HELPER_TRACES ? PRIVILEGES_ALL : LOOKING) == 0)
		helper_serve();
	_exit(0);
}

/* Returns its pidfd, or a negative errno. */
static int make_child(const int *socks, s32 kind)
{
	int pidfd = -1;
	/* glibc's fork() gives no pidfd, and a child may have ended before it is asked for. */
	long child = syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, 0, &pidfd, 0, 0);

	if (child == 0)
		become_helper(socks, kind);
	return child < 0 ? -errno : pidfd;
}

static void spawn(void)
{
	struct message in = { 0 };
	s32 word;
	int r;

	for (;;) {
		struct message out = { .head = &word, .head_bytes = sizeof(word) };

		in = out;
		r = message_receive(SPAWNER_SOCK, &in, 0);
		if (r == -EINTR)
			continue;
		if (r < 0)
			return;
		word = in.files == 2 ? make_child(in.file, word) : -EPROTO;
		while (in.files)
			close(in.file[--in.files]);
		if (word >= 0) {
			out.file[0] = word;
			out.files = 1;
		}
		r = message_send(SPAWNER_SOCK, &out);
		if (r < 0 && r != -EPIPE && out.files) {
			/* A child whose sockets nobody has ends by itself. */
			out.files = 0;
			close_any(word);
			word = r;
			r = message_send(SPAWNER_SOCK, &out);
		}
		close_any(word);
		if (r < 0)
			return;
	}
}

static void become_spawner(int sock)
{
	sigset_t all;

	prctl(PR_SET_NAME, SPAWNER_NAME);
	/* What ends the engine ends this, too: by the end of its socket, so that no stop leaves the engine without it. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	/* The kernel waits for its children in its place. */
	signal(SIGCHLD, SIG_IGN);
	if (keep_only(&sock, 1) == 0 && privilege_drop(PRIVILEGES_ALL) == 0 &&
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
		spawn();
	_exit(0);
}

/* --- the engine --- */

/* By a child that ends at once, so that nobody here has to wait for the end of the process. */
static int fork_spawner(int sock)
{
	pid_t child = fork();
	int status = 0;

	if (child == 0) {
		pid_t second = fork();

		if (second == 0)
			become_spawner(sock);
		_exit(second < 0);
	}
	if (child < 0)
		return -errno;
	while (waitpid(child, &status, 0) < 0) {
		/* Somebody else here has waited for it: whether there is a spawner the socket says. */
		if (errno != EINTR)
			return errno == ECHILD ? 0 : -errno;
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EAGAIN;
}

static int start_spawner(struct spawner *spawner)
{
	struct timeval wait = { .tv_sec = SPAWNER_WAIT_S };
	int socks[2], r;

	if (spawner->sock >= 0)
		return 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks) < 0)
		return -errno;
	r = setsockopt(socks[0], SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) < 0 ? -errno : fork_spawner(socks[1]);
	close(socks[1]);
	if (r < 0)
		close(socks[0]);
	else
		spawner->sock = socks[0];
	return r;
}

int spawner_open(struct spawner *spawner)
{
	pthread_mutex_init(&spawner->lock, NULL);
	spawner->sock = -1;
	return start_spawner(spawner);
}

void spawner_close(struct spawner *spawner)
{
	close_one(&spawner->sock);
}

/* Returns the pidfd of the helper, or a negative errno. With the lock. */
static int ask_spawner(struct spawner *spawner, enum helper_kind kind, const int *socks)
{
	s32 word = kind;
	struct message message = {
		.head = &word, .head_bytes = sizeof(word), .file = { socks[0], socks[1] }, .files = 2
	};
	int r = message_send(spawner->sock, &message);

	/* It is there, and this was not sent. */
	if (r == -ETOOMANYREFS || r == -ENOBUFS || r == -ENOMEM)
		return r;
	if (r == 0) {
		message.files = 0;
		r = message_receive(spawner->sock, &message, 0);
	}
	if (r == 0 && message.files == 1)
		return message.file[0];
	r = r < 0 ? r : word < 0 ? word : -EPROTO;
	/* Somebody has killed it. */
	if (r != word)
		close_one(&spawner->sock);
	return r;
}

static int start_with(struct spawner *spawner, enum helper_kind kind, const int *socks)
{
	int tries, r = -EPIPE;

	pthread_mutex_lock(&spawner->lock);
	for (tries = 0; tries < 2 && r < 0 && (tries == 0 || spawner->sock < 0); tries++) {
		r = start_spawner(spawner);
		if (r == 0)
			r = ask_spawner(spawner, kind, socks);
	}
	pthread_mutex_unlock(&spawner->lock);
	return r;
}

int helper_start(struct spawner *spawner, enum helper_kind kind, struct helper *helper)
{
	int results[2], files[2] = { -1, -1 }, r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, results) < 0)
		return -errno;
	r = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, files) < 0 ? -errno : 0;
	if (r == 0)
		r = start_with(spawner, kind, (int[]){ results[1], files[1] });
	close(results[1]);
	close_any(files[1]);
	if (r < 0) {
		close(results[0]);
		close_any(files[0]);
		return r;
	}
	*helper = (struct helper){ .results = results[0], .files = files[0], .pidfd = r };
	return 0;
}

static void close_sockets(struct helper *helper)
{
	close_one(&helper->results);
	close_one(&helper->files);
}

void helper_end(struct helper *helper)
{
	close_sockets(helper);
	close_one(&helper->pidfd);
}

int helper_kill(struct helper *helper)
{
	int pidfd = helper->pidfd;

	close_sockets(helper);
	helper->pidfd = -1;
	syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
	return pidfd;
}
