// SPDX-License-Identifier: Apache-2.0
/* A whole file of bounded size; no link in its last part is followed, and nothing but a file is waited for. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher.h"

long launcher_read_all(int fd, char *buffer, size_t limit)
{
	size_t done = 0;

	while (done < limit) {
		ssize_t count = read(fd, buffer + done, limit - done);

		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return -1;
		if (count == 0)
			break;
		done += (size_t)count;
	}
	return (long)done;
}

long launcher_read_file(const char *path, size_t limit, char **text)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	struct stat status;
	long size = -1;
	int error = EINVAL;

	*text = NULL;
	if (fd < 0)
		return -1;
	if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && (size_t)status.st_size <= limit) {
		/* One byte more than the size: a file that grew meanwhile is noticed. */
		*text = malloc((size_t)status.st_size + 1);
		size = *text ? launcher_read_all(fd, *text, (size_t)status.st_size + 1) : -1;
		error = size < 0 ? errno : EINVAL;
		if (size != (long)status.st_size) {
			size = -1;
			free(*text);
			*text = NULL;
		}
	}
	close(fd);
	errno = error == ENOENT ? EINVAL : error;
	return size;
}
