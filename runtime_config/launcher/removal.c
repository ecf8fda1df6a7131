// SPDX-License-Identifier: Apache-2.0
/*
 * A removal of what is not there. containerd's shim has a container removed, and at its own end removes it once more, by
 * force: a whole start of the low-level runtime, in the way of `docker run --rm`, that finds no container and succeeds
 * without a word. runc (delete.go) and crun keep a container's state in a folder of its id, below --root.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher.h"

#define ID_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-."

static bool keeps_folders(const char *runtime)
{
	const char *name = launcher_base_name(runtime);

	return strcmp(name, "runc") == 0 || strcmp(name, "crun") == 0;
}

/* Another id is refused by runc, and is a path for crun. */
static bool is_id(const char *text)
{
	return text[0] && text[0] != '.' && text[0] != '-' && text[strspn(text, ID_CHARACTERS)] == '\0';
}

static bool has_state(const char *root, const char *id)
{
	char path[PATH_MAX];
	struct stat status;
	int length = snprintf(path, sizeof(path), "%s/%s", root, id);

	return length < 0 || length >= PATH_MAX || lstat(path, &status) == 0 || errno != ENOENT;
}

static bool can_log(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

bool launcher_removes_nothing(const struct launcher_call *call, const char *runtime)
{
	struct stat status;

	if (!keeps_folders(runtime) || !call->root || !is_id(call->container))
		return false;
	/* runc makes a root that is missing. */
	if (stat(call->root, &status) != 0 || !S_ISDIR(status.st_mode))
		return false;
	return !has_state(call->root, call->container) && (!call->log || can_log(call->log));
}
