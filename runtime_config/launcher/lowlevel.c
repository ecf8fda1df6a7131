// SPDX-License-Identifier: Apache-2.0
/* Which low-level runtime does the work: the configured one, else the first found, never this program itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher.h"

#define VENDOR_RUNTIME "nvidia-container-runtime"

const char *launcher_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

bool launcher_may_return(const char *path)
{
	return strncmp(launcher_base_name(path), VENDOR_RUNTIME, strlen(VENDOR_RUNTIME)) == 0;
}

/* Whether a path leads to a program of our names: this one, or another copy of it, as a wheel brings it. */
static bool is_ours(const char *path)
{
	char real[PATH_MAX];
	const char *name = realpath(path, real) ? launcher_base_name(real) : "";

	return strcmp(name, LAUNCHER_NAME) == 0 || strcmp(name, LAUNCHER_LOW_LEVEL) == 0;
}

static bool usable(const char *path)
{
	struct stat status;
	struct stat self;

	if (stat(path, &status) != 0 || !S_ISREG(status.st_mode) || access(path, X_OK) != 0 || is_ours(path))
		return false;
	if (stat("/proc/self/exe", &self) != 0)
		return false;
	return status.st_dev != self.st_dev || status.st_ino != self.st_ino;
}

static bool search(const char *name, char path[PATH_MAX])
{
	const char *at = CGPU_SEARCH_PATH;

	while (*at) {
		size_t length = strcspn(at, ":");
		int written = snprintf(path, PATH_MAX, "%.*s/%s", (int)length, at, name);

		if (written > 0 && written < PATH_MAX && usable(path))
			return true;
		at += length;
		at += *at == ':';
	}
	return false;
}

bool launcher_find_runtime(const struct launcher_settings *settings, bool plain, char path[PATH_MAX])
{
	if (settings->runtime[0] && !(plain && launcher_may_return(settings->runtime))) {
		memcpy(path, settings->runtime, PATH_MAX);
		return usable(path);
	}
	if (!plain && search(VENDOR_RUNTIME, path))
		return true;
	return search("runc", path) || search("crun", path);
}
