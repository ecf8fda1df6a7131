// SPDX-License-Identifier: Apache-2.0
/*
 * Which low-level runtime does the work: the configured one, else the first found, never this program itself. The
 * setting is in the file that the engine writes: one flat JSON object of strings without escapes, whole numbers, true,
 * false and null. Anything else makes the settings unknown, and Python reads them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "json.h"
#include "launcher.h"

#define VENDOR_RUNTIME "nvidia-container-runtime"
#define SETTINGS_LIMIT 16384

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

/* Take a member of the settings; the context is the runtime's path. False: it is not what the engine writes. */
static bool note(const struct json_token *key, const struct json_token *value, void *context)
{
	char *runtime = context;

	if (!json_is(key, "low_level_runtime"))
		return value->kind != JSON_NESTED;
	if (runtime[0])
		return false;
	if (value->kind != JSON_STRING)
		return json_is(value, "null");
	return json_copy_path(value, runtime);
}

/* Read low_level_runtime, empty where it is not set. False: the settings are not what the engine writes. */
static bool read_settings(char runtime[PATH_MAX])
{
	char *text = NULL;
	long size = launcher_read_file(CGPU_CONFIG_PATH, SETTINGS_LIMIT, &text);
	bool known;

	runtime[0] = '\0';
	/* Without a right to read it there is no engine to reach either: a rootless container engine. */
	if (size < 0)
		return errno == ENOENT || errno == EACCES;
	known = json_read_object(text, (size_t)size, note, runtime);
	free(text);
	return known;
}

bool launcher_find_runtime(bool plain, char path[PATH_MAX])
{
	if (!read_settings(path))
		return false;
	if (path[0] && !(plain && launcher_may_return(path)))
		return usable(path);
	if (!plain && search(VENDOR_RUNTIME, path))
		return true;
	return search("runc", path) || search("crun", path);
}
