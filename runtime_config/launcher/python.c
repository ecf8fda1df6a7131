// SPDX-License-Identifier: Apache-2.0
/* The start of Python, isolated, for a script of this package. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "launcher.h"

#define MAX_ARGUMENTS 4096

void launcher_exec_python(const char *script, int argc, char *const *argv, char *const *environment)
{
	char *arguments[MAX_ARGUMENTS + 4];

	if (argc < 1 || argc > MAX_ARGUMENTS) {
		errno = E2BIG;
		return;
	}
	arguments[0] = (char *)CGPU_PYTHON;
	arguments[1] = (char *)"-IS";
	arguments[2] = (char *)script;
	for (int i = 1; i <= argc; i++)
		arguments[2 + i] = argv[i]; /* the last one is the closing NULL */
	execve(CGPU_PYTHON, arguments, environment);
}

void launcher_say_lost(void)
{
	fprintf(stderr, LAUNCHER_LINE_START "/proc/self/exe: %s; this program finds its other files by it\n",
		strerror(errno));
}
