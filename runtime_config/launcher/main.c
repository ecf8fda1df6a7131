// SPDX-License-Identifier: Apache-2.0
/*
 * cgpu-container-runtime: an OCI runtime in front of another one. Every call but the start of a container that may
 * ask for a slice goes to the other runtime at once; such a start, and a call that is not understood here, goes
 * through Python: the server's where one runs, else one of its own.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher.h"

#define SCRIPT "oci_runtime/launch.py"
#define VENDOR_RUNTIME "nvidia-container-runtime"

extern char **environ;

/* The script lies beside this program's folder, wherever the package is. errno says why it is not found. */
static bool find_script(char path[PATH_MAX])
{
	ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);

	if (length < 0)
		return false;
	path[length] = '\0';
	errno = ENOENT;
	for (int level = 0; level < 2; level++) {
		char *slash = strrchr(path, '/');

		if (!slash)
			return false;
		*slash = '\0';
	}
	length = (ssize_t)strlen(path);
	errno = ENAMETOOLONG;
	return (size_t)snprintf(path + length, (size_t)(PATH_MAX - length), "/" SCRIPT) < (size_t)(PATH_MAX - length);
}

/* A copy of the environment in which LD_ variables have another name. */
static char **python_environment(void)
{
	size_t count = 0;
	char **copy;

	while (environ[count])
		count++;
	copy = calloc(count + 1, sizeof(*copy));
	for (size_t i = 0; copy && i < count; i++) {
		copy[i] = environ[i];
		if (strncmp(environ[i], "LD_", 3) == 0) {
			size_t size = strlen(environ[i]) + sizeof(LAUNCHER_KEPT);

			copy[i] = malloc(size);
			if (!copy[i])
				return NULL;
			snprintf(copy[i], size, LAUNCHER_KEPT "%s", environ[i]);
		}
	}
	return copy;
}

/* Python gets the command line as it was read here, and then as it is. */
static void exec_python(int argc, char **argv, const struct launcher_call *call)
{
	const char *const facts[] = { argv[0], call->command, call->bundle, call->container, call->log,
		call->log_format, call->unknown };
	size_t count = sizeof(facts) / sizeof(facts[0]);
	char **words = calloc(count + (size_t)argc, sizeof(*words));
	char script[PATH_MAX];
	char **environment;

	if (!find_script(script)) {
		launcher_say_lost();
		exit(1);
	}
	environment = python_environment();
	if (!environment || !words)
		return;
	memcpy(words, facts, sizeof(facts));
	memcpy(words + count, argv + 1, (size_t)argc * sizeof(*argv)); /* the last one is the closing NULL */
	launcher_exec_python(script, argc - 1 + (int)count, words, environment);
}

/* Set a variable that is valid for this process only. */
static bool mark(const char *name)
{
	char pid[32];

	snprintf(pid, sizeof(pid), "%ld", (long)getpid());
	return setenv(name, pid, 1) == 0;
}

static bool came_back(void)
{
	const char *again = getenv(LAUNCHER_AGAIN);
	char pid[32];

	snprintf(pid, sizeof(pid), "%ld", (long)getpid());
	return again && strcmp(again, pid) == 0;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/*
 * Read the link that the engine keeps to the low-level runtime (keep_links() of oci_runtime/lowlevel.py), or to the one that
 * never calls us. False: there is no link, or it leads to this program: then Python looks for a runtime, and says what is wrong.
 */
static bool read_link(bool plain, char path[PATH_MAX])
{
	ssize_t length = readlink(plain ? CGPU_PLAIN_LINK_PATH : CGPU_LINK_PATH, path, PATH_MAX - 1);
	struct stat found;
	struct stat self;

	if (length <= 0 || path[0] != '/')
		return false;
	path[length] = '\0';
	return stat(path, &found) == 0 && stat("/proc/self/exe", &self) == 0 &&
		(found.st_dev != self.st_dev || found.st_ino != self.st_ino);
}

static void exec_runtime(char *path, char **argv)
{
	/* The vendor's runtime may call us again. */
	bool returns = strncmp(base_name(path), VENDOR_RUNTIME, strlen(VENDOR_RUNTIME)) == 0;

	if (returns && !mark(LAUNCHER_AGAIN))
		return;
	argv[0] = path;
	execv(path, argv);
	/* The runtime has not edited the bundle: Python would take the mark for a call that needs no edit. */
	if (returns)
		unsetenv(LAUNCHER_AGAIN);
}

/* Have the server work out the new config.json, and become the low-level runtime. Returns where Python has to do it. */
static void exec_prepared(char **argv, const struct launcher_call *call, bool below)
{
	struct launcher_prepared prepared;
	int written = -1;

	if (!launcher_ask_server(call, below, &prepared))
		return;
	if (prepared.edited >= 0)
		written = launcher_replace(prepared.folder, prepared.former, prepared.edited);
	if (prepared.edited >= 0 && written < 0)
		return;
	if (unsetenv(LAUNCHER_BELOW) == 0)
		exec_runtime(prepared.runtime, argv);
	if (written >= 0)
		launcher_replace(prepared.folder, written, prepared.former);
}

int main(int argc, char **argv)
{
	struct launcher_call call;
	char runtime[PATH_MAX];
	/* Called by the runtime that this process has started: the bundle is edited already. */
	bool again = came_back();
	bool direct = again;
	bool below;

	launcher_protect();
	if (argc < 1)
		return 1;
	/* Called by the vendor's runtime, which has edited the bundle and is not to be started once more. */
	below = strcmp(base_name(argv[0]), LAUNCHER_LOW_LEVEL) == 0;
	launcher_parse(argc, argv, &call);
	if (!call.unknown[0] && (!call.command[0] || launcher_asks_nothing(call.bundle)))
		direct = true;
	if (direct && read_link(again || below, runtime))
		exec_runtime(runtime, argv);
	if (!direct && call.command[0])
		exec_prepared(argv, &call, below);
	if (!below || mark(LAUNCHER_BELOW))
		exec_python(argc, argv, &call);
	launcher_say_no_python();
	return 1;
}
