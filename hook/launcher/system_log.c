// SPDX-License-Identifier: Apache-2.0
/* One line to the system log. Not by syslog(3): that of musl cuts a line at 1024 bytes, writes the time of UTC, and knows no stream. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "hook.h"

/* The form that glibc sends: priority, local time, name and pid. Returns its length, without the byte at its end. */
static size_t form(char *text, size_t size, const char *container, const char *line)
{
	char moment[32] = "";
	time_t now = time(NULL);
	struct tm local;
	int length;

	if (localtime_r(&now, &local))
		strftime(moment, sizeof(moment), "%b %e %H:%M:%S", &local);
	length = snprintf(text, size, "<%d>%s " HOOK_NAME "[%ld]: container=%s %s", LOG_DAEMON | LOG_INFO, moment,
		(long)getpid(), container, line);
	return length < 0 ? 0 : (size_t)length < size ? (size_t)length : size - 1;
}

static bool send_by(int kind, const char *text, size_t size)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = CGPU_LOG_PATH };
	int fd = socket(AF_UNIX, kind | SOCK_CLOEXEC, 0);
	bool sent;

	if (fd < 0)
		return false;
	sent = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
		send(fd, text, size, MSG_NOSIGNAL) == (ssize_t)size;
	close(fd);
	return sent;
}

void hook_log(const char *container, const char *line)
{
	char text[2 * HOOK_LINE_MAX];
	size_t length = form(text, sizeof(text), container, line);

	/* In a stream a zero byte ends a line. */
	if (!send_by(SOCK_DGRAM, text, length))
		send_by(SOCK_STREAM, text, length + 1);
}
