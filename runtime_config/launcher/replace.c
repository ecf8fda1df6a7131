// SPDX-License-Identifier: Apache-2.0
/* Replaces a bundle's config.json, whole or not at all, as write() of oci_runtime/bundle.py does. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher.h"

/* As in oci_runtime/bundle.py. */
#define NAME "config.json"
#define TEMPORARY ".config.json.cgpu"
#define AT_ONCE (1u << 20)

static bool copy(int from, int to)
{
	/* The caller's limit of file sizes is an error, as it is for Python, and not the end of this process. */
	void (*former)(int) = signal(SIGXFSZ, SIG_IGN);
	off_t at = 0;
	ssize_t count;

	do
		count = sendfile(to, from, &at, AT_ONCE);
	while (count > 0);
	/* The low-level runtime has it as the caller has set it. */
	signal(SIGXFSZ, former);
	return count == 0;
}

/* Whether config.json is that very file, and no link to it. The descriptor keeps its number from another file. */
static bool is_current(int folder, const struct stat *status)
{
	struct stat current;

	return fstatat(folder, NAME, &current, AT_SYMLINK_NOFOLLOW) == 0 && current.st_dev == status->st_dev &&
		current.st_ino == status->st_ino;
}

static bool fill(int fd, const struct stat *former, int content)
{
	struct stat made;

	/* Its group may be the folder's, not ours. */
	if (fstat(fd, &made) != 0 || !copy(content, fd))
		return false;
	if ((made.st_uid != former->st_uid || made.st_gid != former->st_gid) &&
		fchown(fd, former->st_uid, former->st_gid) != 0)
		return false;
	return fchmod(fd, former->st_mode & 07777) == 0;
}

int launcher_replace(int folder, int former, int content)
{
	struct stat status;
	int fd;

	if (fstat(former, &status) != 0 || !is_current(folder, &status))
		return -1;
	if (unlinkat(folder, TEMPORARY, 0) != 0 && errno != ENOENT)
		return -1;
	fd = openat(folder, TEMPORARY, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	if (fill(fd, &status, content) && renameat(folder, TEMPORARY, folder, NAME) == 0)
		return fd;
	unlinkat(folder, TEMPORARY, 0);
	close(fd);
	return -1;
}
