// SPDX-License-Identifier: Apache-2.0
/* cgpu-hook STAGE ARGUMENTS…, the container's state on standard input. hook/start.py does the rest in Python. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hook.h"
#include "launcher.h"

extern char **environ;

/* Put what was read back onto standard input. */
static bool hand_on(const char *text, long size)
{
	int fd;
	bool done;

	if (size <= 0)
		return true;
	fd = memfd_create("state", MFD_CLOEXEC);
	done = fd >= 0 && write(fd, text, (size_t)size) == size && lseek(fd, 0, SEEK_SET) == 0;
	done = done && dup2(fd, STDIN_FILENO) == STDIN_FILENO;
	if (fd >= 0)
		close(fd);
	return done;
}

/* The script lies beside this program. errno says why it is not found. */
static bool find_script(char path[PATH_MAX])
{
	ssize_t room = PATH_MAX - sizeof(CGPU_HOOK_SCRIPT);
	ssize_t length = readlink("/proc/self/exe", path, (size_t)room);
	char *slash;

	if (length < 0)
		return false;
	errno = ENAMETOOLONG;
	path[length] = '\0';
	slash = strrchr(path, '/');
	if (length == room || !slash)
		return false;
	strcpy(slash + 1, CGPU_HOOK_SCRIPT);
	return true;
}

static void exec_python(int argc, char **argv)
{
	char script[PATH_MAX];

	if (!find_script(script)) {
		launcher_say_lost();
		exit(1);
	}
	launcher_exec_python(script, argc, argv, environ);
}

static bool serve(int argc, char **argv, const char *text, long size)
{
	struct hook_state state;
	char tree[PATH_MAX];
	const char *stage = argc > 1 ? argv[1] : "";

	if (size < 0 || size > (long)HOOK_STATE_MAX || !hook_read_state(text, (size_t)size, &state) ||
		!hook_find_tree(tree))
		return false;
	if (strcmp(stage, "poststop") == 0)
		return hook_remove(tree, &state);
	if (strcmp(stage, "prestart") != 0 && strcmp(stage, "createRuntime") != 0)
		return false;
	return hook_register(tree, &state, argc - 2, argv + 2);
}

int main(int argc, char **argv)
{
	char *text;
	long size;
	bool served;

	launcher_protect();
	text = malloc(HOOK_STATE_MAX + 1);
	/* One byte more than a state may have: Python sees by it that it is too long. An error Python meets too, and says. */
	size = text ? launcher_read_all(STDIN_FILENO, text, HOOK_STATE_MAX + 1) : 0;
	served = text && serve(argc, argv, text, size);
	if (!served && hand_on(text, size))
		exec_python(argc, argv);
	free(text);
	if (served)
		return 0;
	fprintf(stderr, LAUNCHER_LINE_START "cannot start " CGPU_PYTHON ": %s; install this Python\n", strerror(errno));
	return 1;
}
