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

struct removal {
	const char *root, *log, *id;
};

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

/* crun takes what is before a colon for a kind of log. */
static bool is_path(const char *text)
{
	return text[0] == '/' && !strchr(text, ':');
}

/* Options before the command, of those that containerd writes. Returns where they end; -1: there is another. */
static int read_options(int argc, char *const *argv, struct removal *removal)
{
	int at = 1;

	for (; at < argc && argv[at][0] == '-'; at++) {
		const char *value = at + 1 < argc ? argv[at + 1] : "";

		if (strcmp(argv[at], "--systemd-cgroup") == 0)
			continue;
		if (strcmp(argv[at], "--root") == 0 && !removal->root && is_path(value))
			removal->root = value;
		else if (strcmp(argv[at], "--log") == 0 && !removal->log && is_path(value))
			removal->log = value;
		else if (strcmp(argv[at], "--log-format") != 0 || strcmp(value, "json") != 0)
			return -1;
		at++;
	}
	return at;
}

/* Read the command line as containerd writes it. False: it is another. */
static bool read_removal(int argc, char *const *argv, struct removal *removal)
{
	int at;

	*removal = (struct removal){ 0 };
	at = read_options(argc, argv, removal);
	if (at < 0 || at + 3 != argc || strcmp(argv[at], "delete") != 0 || strcmp(argv[at + 1], "--force") != 0)
		return false;
	removal->id = argv[at + 2];
	return removal->root && is_id(removal->id);
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

bool launcher_removes_nothing(int argc, char *const *argv, const char *runtime)
{
	struct removal removal;
	struct stat status;

	if (!keeps_folders(runtime) || !read_removal(argc, argv, &removal))
		return false;
	/* runc makes a root that is missing, and opens its log first. */
	if (stat(removal.root, &status) != 0 || !S_ISDIR(status.st_mode))
		return false;
	return (!removal.log || can_log(removal.log)) && !has_state(removal.root, removal.id);
}
