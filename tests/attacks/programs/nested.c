// SPDX-License-Identifier: Apache-2.0
/*
 * nested LEVELS DIR DEV PROGRAM [WORD...]: starts a container inside of this one, as a docker in docker does, inside
 * of that another, and so on. Each has namespaces of its own of every kind, a root of its own that is built in DIR,
 * the device nodes of DEV in its /dev (made anew where they are device nodes), and a seccomp filter of its own. The
 * innermost asks for a seccomp listener of its own, says what came of that, and becomes the static PROGRAM with
 * nothing in its environment.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SPACES (CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWCGROUP)

static void need(int result, const char *what)
{
	if (result >= 0)
		return;
	fprintf(stderr, "nested: %s: %s\n", what, strerror(errno));
	exit(9);
}

/* One node: made anew, or, where the card is simulated by files, bound. */
static void bring(const char *from, const char *to)
{
	struct stat stat_of;

	need(stat(from, &stat_of), from);
	if (S_ISCHR(stat_of.st_mode)) {
		need(mknod(to, S_IFCHR | 0666, stat_of.st_rdev), to);
		return;
	}
	need(open(to, O_CREAT | O_RDWR | O_CLOEXEC, 0600), to);
	need(mount(from, to, NULL, MS_BIND, NULL), to);
}

static void bring_nodes(const char *dev, const char *root)
{
	char from[4096], to[4096];
	const struct dirent *entry;
	DIR *nodes = opendir(dev);

	need(nodes ? 0 : -1, dev);
	while ((entry = readdir(nodes)) != NULL) {
		if (strncmp(entry->d_name, "nvidia", 6) != 0)
			continue;
		snprintf(from, sizeof(from), "%s/%s", dev, entry->d_name);
		snprintf(to, sizeof(to), "%s/dev/%s", root, entry->d_name);
		bring(from, to);
	}
	closedir(nodes);
}

/* The first process of the new namespaces goes on; the one before it ends as that one does. */
static void become_child(void)
{
	pid_t child = fork();
	int status;

	need(child, "fork");
	if (child == 0)
		return;
	/* Only the program reads it. */
	close(STDIN_FILENO);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static void make_root(const char *root, const char *dev)
{
	char path[4096];

	need(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), "private");
	need(mount("none", root, "tmpfs", 0, NULL), root);
	snprintf(path, sizeof(path), "%s/dev", root);
	need(mkdir(path, 0755), path);
	bring_nodes(dev, root);
	need(chdir(root), root);
	need(mkdir("inner", 0755), "inner");
	need(mkdir("proc", 0755), "proc");
	need(mkdir("old", 0700), "old");
	need((int)syscall(SYS_pivot_root, ".", "old"), "pivot_root");
	need(chdir("/"), "/");
	need(mount("none", "/proc", "proc", 0, NULL), "/proc");
	need(umount2("/old", MNT_DETACH), "/old");
}

static int filter(unsigned int flags)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { 1, &allow };

	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

int main(int argc, char **argv)
{
	char *nothing[] = { NULL };
	int levels, program, listener;
	const char *root, *dev;

	if (argc < 5)
		return 2;
	levels = atoi(argv[1]);
	root = argv[2];
	dev = argv[3];
	program = open(argv[4], O_RDONLY);
	need(program, argv[4]);
	for (; levels > 0; levels--) {
		need(unshare(SPACES), "namespaces");
		become_child();
		make_root(root, dev);
		need(filter(0), "filter");
		root = "/inner";
		dev = "/dev";
	}
	listener = filter(SECCOMP_FILTER_FLAG_NEW_LISTENER);
	printf("listener errno=%d\n", listener < 0 ? errno : 0);
	fflush(stdout);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	need((int)syscall(SYS_execveat, program, "", argv + 4, nothing, AT_EMPTY_PATH), argv[4]);
	return 9;
}
