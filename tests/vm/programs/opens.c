// SPDX-License-Identifier: Apache-2.0
/* opens COUNT PATH...  opens and closes each path so often, and says how many opens failed. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "rm_client.h"

int main(int argc, char **argv)
{
	long i, count = argc > 2 ? atol(argv[1]) : 0, failed = 0, done = 0;
	int path, fd, error = 0;

	for (i = 0; i < count; i++) {
		for (path = 2; path < argc; path++) {
			fd = open(argv[path], O_RDWR | O_CLOEXEC);
			done++;
			if (fd >= 0 && close(fd) == 0)
				continue;
			failed++;
			error = errno;
		}
	}
	printf("opens done=%ld failed=%ld errno=%d\n", done, failed, error);
	return done == 0 || failed ? 1 : 0;
}
