// SPDX-License-Identifier: Apache-2.0
/* The start of Python, isolated, for a script of this package. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "launcher.h"

#define MAX_ARGUMENTS 4096

static const char *python = CGPU_PYTHON;

/* Return a bundle's own Python where the script lies in one, else this machine's. */
static const char *find_python(const char *script)
{
	static char path[PATH_MAX];
	const char *inside = strstr(script, CGPU_BUNDLED);

	if (!inside)
		return CGPU_PYTHON;
	snprintf(path, sizeof(path), "%.*s/bin/python3", (int)(inside - script), script);
	return path;
}

void launcher_exec_python(const char *script, int argc, char *const *argv, char *const *environment)
{
	char *arguments[MAX_ARGUMENTS + 4];

	if (argc < 1 || argc > MAX_ARGUMENTS) {
		errno = E2BIG;
		return;
	}
	python = find_python(script);
	arguments[0] = (char *)python;
	arguments[1] = (char *)"-IS";
	arguments[2] = (char *)script;
	for (int i = 1; i <= argc; i++)
		arguments[2 + i] = argv[i]; /* the last one is the closing NULL */
	execve(python, arguments, environment);
}

void launcher_say_no_python(void)
{
	fprintf(stderr, LAUNCHER_LINE_START "cannot start %s: %s; install this Python\n", python, strerror(errno));
}

void launcher_say_lost(void)
{
	fprintf(stderr, LAUNCHER_LINE_START "/proc/self/exe: %s; this program finds its other files by it\n",
		strerror(errno));
}
