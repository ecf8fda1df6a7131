// SPDX-License-Identifier: Apache-2.0
/*
 * flood SOCKET PROCESSES MILLISECONDS: processes that connect to a Unix socket all the time. Each prints "connected" when it has
 * connected for the first time, and "refused" when it has not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

static int connects(const struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int done = connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0;

	close(fd);
	return done;
}

static void flood(const struct sockaddr_un *address, uint64_t until)
{
	int first = connects(address);

	printf("%s\n", first ? "connected" : "refused");
	fflush(stdout);
	while (clock_now() < until)
		connects(address);
}

int main(int argc, char **argv)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int i;

	if (argc < 4)
		return 2;
	strncpy(address.sun_path, argv[1], sizeof(address.sun_path) - 1);
	for (i = 0; i < atoi(argv[2]); i++) {
		if (fork() == 0) {
			flood(&address, clock_now() + strtoull(argv[3], NULL, 0) * 1000000);
			return 0;
		}
	}
	while (wait(NULL) > 0)
		;
	return 0;
}
