// SPDX-License-Identifier: Apache-2.0
/* Starts and ends helpers, by a spawner. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
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

/* --- the spawner and its children, which use nothing of the engine but the descriptors they are given --- */

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

/* Map the memory file that helper and engine share. */
static struct mailbox *open_box(int fd)
{
	void *box = mmap(NULL, sizeof(struct mailbox), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return box == MAP_FAILED ? NULL : box;
}

static void become_helper(const int *given, s32 kind, pid_t spawner)
{
	struct mailbox *box = NULL;

	prctl(PR_SET_NAME, HELPER_NAME);
	if (keep_only(given, 2) == 0 && privilege_drop(kind == HELPER_TRACES ? PRIVILEGES_ALL : LOOKING) == 0)
		box = open_box(HELPER_BOX);
	/* Messages of libc go to the socket, where they end this process, and not into a file that it opens. */
	if (!box || dup2(HELPER_FILES, STDOUT_FILENO) < 0 || dup2(HELPER_FILES, STDERR_FILENO) < 0)
		_exit(1);
	/* The helper has no other notice of the engine's end. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == spawner)
		helper_serve(box);
	_exit(0);
}

/* Returns its pidfd, or a negative errno. */
static int make_child(const int *given, s32 kind)
{
	pid_t spawner = getpid();
	int pidfd = -1;
	/* glibc's fork() gives no pidfd, and a child may have ended before it is asked for. */
	long child = syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, 0, &pidfd, 0, 0);

	if (child == 0)
		become_helper(given, kind, spawner);
	return child < 0 ? -errno : pidfd;
}

static void end_child(int pidfd)
{
	syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
	close(pidfd);
}

/* 0, or a negative errno when the engine is gone. */
static int answer_start(int child)
{
	struct message out = { .serial = (u64)(s64)child, .file = { child }, .files = child >= 0 };
	int r = message_send(SPAWNER_SOCK, &out);

	if (r == 0 || child < 0) {
		close_any(child);
		return r;
	}
	/* The engine did not get the helper. */
	end_child(child);
	if (r == -EPIPE)
		return r;
	out = (struct message){ .serial = (u64)(s64)r };
	return message_send(SPAWNER_SOCK, &out);
}

static void spawn(void)
{
	struct message in = { 0 };
	int r = 0, child;

	while (r == 0) {
		r = message_receive(SPAWNER_SOCK, &in, 0);
		if (r < 0) {
			r = r == -EINTR ? 0 : r;
			continue;
		}
		child = in.files == 2 ? make_child(in.file, (s32)in.serial) : -EPROTO;
		while (in.files)
			close(in.file[--in.files]);
		r = answer_start(child);
	}
}

static void become_spawner(int sock)
{
	sigset_t all;

	prctl(PR_SET_NAME, SPAWNER_NAME);
	/* Only its socket's end, and so the engine's, ends the spawner: signals must not take it from the engine. */
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

/* Forks by a child that ends at once, so that the engine need not wait for the spawner's end. */
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
		/* Another thread has waited for the child: the socket will say whether there is a spawner. */
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
static int ask_spawner(struct spawner *spawner, enum helper_kind kind, const int *given)
{
	struct message message = { .serial = kind, .file = { given[0], given[1] }, .files = 2 };
	int r = message_send(spawner->sock, &message);

	/* The spawner lives, and the message was not sent. */
	if (r == -ETOOMANYREFS || r == -ENOBUFS || r == -ENOMEM)
		return r;
	if (r == 0) {
		message.files = 0;
		r = message_receive(spawner->sock, &message, 0);
	}
	if (r == 0 && message.files == 1)
		return message.file[0];
	if (r == 0 && (s64)message.serial < 0)
		return (int)message.serial;
	/* Another process has killed the spawner. */
	close_one(&spawner->sock);
	return r < 0 ? r : -EPROTO;
}

static int start_with(struct spawner *spawner, enum helper_kind kind, const int *given)
{
	int tries, r = -EPIPE;

	pthread_mutex_lock(&spawner->lock);
	for (tries = 0; tries < 2 && r < 0 && (tries == 0 || spawner->sock < 0); tries++) {
		r = start_spawner(spawner);
		if (r == 0)
			r = ask_spawner(spawner, kind, given);
	}
	pthread_mutex_unlock(&spawner->lock);
	return r;
}

static int make_box(struct helper *helper)
{
	int fd = memfd_create(HELPER_NAME, MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, sizeof(struct mailbox)) == 0)
		helper->box = open_box(fd);
	if (helper->box)
		return fd;
	close(fd);
	return -ENOMEM;
}

static void close_box(struct helper *helper)
{
	if (helper->box)
		munmap(helper->box, sizeof(*helper->box));
	helper->box = NULL;
	close_one(&helper->files);
}

int helper_start(struct spawner *spawner, enum helper_kind kind, struct helper *helper)
{
	int files[2], box, r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, files) < 0)
		return -errno;
	*helper = (struct helper){ .files = files[0], .pidfd = -1 };
	box = make_box(helper);
	r = box < 0 ? box : start_with(spawner, kind, (int[]){ files[1], box });
	close(files[1]);
	close_any(box);
	if (r < 0)
		close_box(helper);
	else
		helper->pidfd = r;
	return r < 0 ? r : 0;
}

void helper_end(struct helper *helper)
{
	close_any(helper_kill(helper));
}

int helper_kill(struct helper *helper)
{
	int pidfd = helper->pidfd;

	if (pidfd >= 0)
		syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
	close_box(helper);
	helper->pidfd = -1;
	return pidfd;
}
