// SPDX-License-Identifier: Apache-2.0
/*
 * cgpu-hook STAGE [TREE LINE], with the container's state on standard input. The runtime wrapper has decided what the
 * container gets: LINE is all that the engine behind TREE is to be given, but for the pid, which nobody knew then. Without
 * a line, as a hook of hooks.d, Python reads the bundle (start.py).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cgpu_hook.h"
#include "launcher.h"

#define ID_KEY " id="
#define STEP_MS 20

extern char **environ;

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

static void exec_python(int argc, char *const *argv)
{
	char script[PATH_MAX];

	if (!find_script(script)) {
		launcher_say_lost();
		exit(1);
	}
	launcher_exec_python(script, argc, argv, environ);
}

/* Return the container's id out of a line, with its length. */
static const char *id_of(const char *line, int *length)
{
	const char *id = strstr(line, ID_KEY);

	id = id ? id + strlen(ID_KEY) : "";
	*length = (int)strcspn(id, " ");
	if (*length > HOOK_ID_MAX)
		*length = HOOK_ID_MAX;
	return id;
}

/* Say why the container does not start, and have Python record it: the message is said with or without a Python. */
__attribute__((format(printf, 2, 3))) static int refuse(char *line, const char *format, ...)
{
	char message[HOOK_LINE_MAX + HOOK_REASON_MAX];
	char *words[] = { (char *)"cgpu-hook", (char *)"refused", line, message, NULL };
	int length, head;
	const char *id = id_of(line, &length);
	va_list arguments;

	head = snprintf(message, HOOK_LINE_MAX, "container %.*s: ", length, id);
	va_start(arguments, format);
	vsnprintf(message + head, sizeof(message) - (size_t)head, format, arguments);
	va_end(arguments);
	fprintf(stderr, LAUNCHER_LINE_START "%s\n", message);
	exec_python(4, words);
	return 1;
}

/* Write a line to the engine. Returns 0 or the error's number, EMSGSIZE when only a part was taken, and why in its words. */
static int tell(const char *tree, const char *text, char why[HOOK_REASON_MAX])
{
	char path[PATH_MAX + 16];
	ssize_t count;
	int fd, error = 0;

	why[0] = '\0';
	snprintf(path, sizeof(path), "%s/inst_ctl", tree);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return errno;
	count = write(fd, text, strlen(text));
	if (count != (ssize_t)strlen(text)) {
		error = count < 0 ? errno : EMSGSIZE;
		count = pread(fd, why, HOOK_REASON_MAX - 1, 0);
		why[count > 0 ? count : 0] = '\0';
		why[strcspn(why, "\n")] = '\0';
	}
	close(fd);
	return error;
}

/* Whether no engine is behind the tree: one that is there says why it refuses. */
static bool is_down(int error, const char *why)
{
	return !why[0] &&
		(error == ENOENT || error == ENOTCONN || error == ENOTDIR || error == ENODEV || error == ECONNABORTED);
}

/* Register a container. An engine that was there for the wrapper and has died since is waited for: it is started anew. */
static int register_container(const char *tree, const char *text, char why[HOOK_REASON_MAX])
{
	int error = tell(tree, text, why);

	for (int waited = 0; is_down(error, why) && waited < CGPU_RESTART_MS; waited += STEP_MS) {
		usleep(STEP_MS * 1000);
		error = tell(tree, text, why);
	}
	return error;
}

static void destroy(const char *tree, const char *line)
{
	char text[HOOK_LINE_MAX + 16];
	char why[HOOK_REASON_MAX];
	int length;
	const char *id = id_of(line, &length);

	snprintf(text, sizeof(text), "destroy" ID_KEY "%.*s", length, id);
	tell(tree, text, why);
}

/* Read the state and return its pid, 0 with errno set where it cannot be read, or has none. */
static long read_pid(void)
{
	char *text = malloc(HOOK_STATE_MAX + 1);
	long size = text ? launcher_read_all(STDIN_FILENO, text, HOOK_STATE_MAX + 1) : -1;
	long pid = 0;

	if (size >= 0) {
		errno = size > (long)HOOK_STATE_MAX ? EFBIG : EINVAL;
		pid = errno == EFBIG ? 0 : hook_find_pid(text, (size_t)size);
	}
	free(text);
	return pid;
}

static int start(const char *tree, char *line)
{
	char text[HOOK_LINE_MAX + 1];
	char why[HOOK_REASON_MAX];
	long pid = read_pid();
	int error;

	if (pid == 0)
		return refuse(line,
			"state on standard input: no pid of its process (%s); expected an OCI state of at most "
			"1 MiB",
			strerror(errno));
	if (snprintf(text, sizeof(text), "%s pid=%ld", line, pid) >= (int)sizeof(text))
		return refuse(line, "its request is too long; expected at most %d bytes", HOOK_LINE_MAX);
	if (access(CGPU_DRAINING_PATH, F_OK) == 0)
		return refuse(line,
			"no slices are given out while OpenCGPU is removed from this node or upgraded; if nobody "
			"does that: cgpu doctor --fix");
	error = register_container(tree, text, why);
	/* The engine may have registered a part; destroy it. */
	if (error == EIO || error == EMSGSIZE)
		destroy(tree, line);
	if (is_down(error, why))
		return refuse(line,
			"the engine at %s is not running, so containers with a GPU slice cannot start; see: "
			"cgpu doctor",
			tree);
	if (error && !why[0])
		return refuse(line, "the engine at %s refused: %s", tree, strerror(error));
	return error ? refuse(line, "%s", why) : 0;
}

int main(int argc, char **argv)
{
	char why[HOOK_REASON_MAX];

	launcher_protect();
	if (argc == 4 && (strcmp(argv[1], "prestart") == 0 || strcmp(argv[1], "createRuntime") == 0))
		return start(argv[2], argv[3]);
	if (argc == 4 && strcmp(argv[1], "poststop") == 0 && tell(argv[2], argv[3], why) == 0)
		return 0;
	exec_python(argc, argv);
	launcher_say_no_python();
	return 1;
}
