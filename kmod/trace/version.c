// SPDX-License-Identifier: Apache-2.0
/* Which driver answers, and by which tables its structures are read. */
#include <ctype.h>
#include <fcntl.h>
#include <linux/ioctl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "recorder.h"

#define PROC_VERSION "/proc/driver/nvidia/version"

/* NUMBER.NUMBER[.NUMBER], and nothing behind it. */
static bool parse(const char *text, unsigned int parts[3])
{
	unsigned int count = 0;
	char *end;

	memset(parts, 0, 3 * sizeof(parts[0]));
	while (count < 3) {
		unsigned long value;

		if (!isdigit((unsigned char)*text))
			return false;
		value = strtoul(text, &end, 10);
		if (value > 65535)
			return false;
		parts[count++] = (unsigned int)value;
		if (*end == '\0')
			return count >= 2;
		if (*end != '.')
			return false;
		text = end + 1;
	}
	return false;
}

/* The line has the version as a word of its own, in a place that differs between the kinds of module. */
static bool from_proc(char *driver, size_t room)
{
	unsigned int parts[3];
	char line[512], *word, *rest = line;
	FILE *file = fopen(PROC_VERSION, "re");
	bool found = false;

	if (!file)
		return false;
	if (fgets(line, sizeof(line), file)) {
		while (!found && (word = strsep(&rest, " \t\n")))
			found = parse(word, parts) && strlen(word) < room && strcpy(driver, word);
	}
	fclose(file);
	return found;
}

/* As every user of the driver asks first. */
static bool from_node(const char *dev, char *driver, size_t room)
{
	const struct nv_layout_nv_ioctl_rm_api_version_t *at = &nv_abi_layouts[0].nv_ioctl_rm_api_version_t;
	uint32_t command = NV_RM_API_VERSION_CMD_QUERY;
	uint8_t data[256] = { 0 };
	unsigned int parts[3];
	char path[4096];
	bool found;
	int fd;

	if (snprintf(path, sizeof(path), "%s/nvidiactl", dev) >= (int)sizeof(path) || at->bytes >= sizeof(data))
		return false;
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return false;
	memcpy(data + at->cmd, &command, sizeof(command));
	found = ioctl(fd, _IOC(_IOC_READ | _IOC_WRITE, NV_IOCTL_MAGIC, NV_ESC_CHECK_VERSION_STR, at->bytes), data) == 0;
	close(fd);
	return found && parse((char *)data + at->versionString, parts) &&
		snprintf(driver, room, "%s", (char *)data + at->versionString) < (int)room;
}

static void pick_layouts(struct version *version, const unsigned int parts[3])
{
	uint64_t key = NV_VERSION_KEY(parts[0], parts[1], parts[2]);
	unsigned int i;

	for (i = 0; i < nv_abi_version_count; i++) {
		const struct nv_abi_version *at = &nv_abi_versions[i];
		uint64_t one = NV_VERSION_KEY(at->major, at->minor, at->patch);

		if (one > key || one < version->key)
			continue;
		version->key = one;
		if (at->patch)
			snprintf(version->layouts, sizeof(version->layouts), "%u.%02u.%02u", at->major, at->minor,
				at->patch);
		else
			snprintf(version->layouts, sizeof(version->layouts), "%u.%02u", at->major, at->minor);
	}
	if (version->key == key)
		snprintf(version->layouts, sizeof(version->layouts), "%s", version->driver);
}

bool version_find(struct version *version, const struct options *options)
{
	size_t room = sizeof(version->driver);
	unsigned int parts[3];

	memset(version, 0, sizeof(*version));
	if (options->driver) {
		if (!parse(options->driver, parts) || strlen(options->driver) >= room)
			return false;
		memcpy(version->driver, options->driver, strlen(options->driver));
	} else if (strcmp(options->dev, "/dev") != 0 || !from_proc(version->driver, room)) {
		if (!from_node(options->dev, version->driver, room))
			version->driver[0] = '\0';
	}
	if (parse(version->driver, parts))
		pick_layouts(version, parts);
	return true;
}

const struct nv_form *version_form(const struct version *version, uint16_t form)
{
	unsigned int i;

	if (form >= nv_form_count || version->key == 0)
		return NULL;
	for (i = 0; i < nv_forms[form].count; i++) {
		const struct nv_form *layout = &nv_forms[form].layouts[i];

		if (layout->first <= version->key && version->key <= layout->last)
			return layout;
	}
	return NULL;
}
