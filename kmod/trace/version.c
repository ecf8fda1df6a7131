// SPDX-License-Identifier: Apache-2.0
/* Which driver answers, and by which tables its structures are read. */
#include <linux/ioctl.h>
#include <unistd.h>

#include "recorder.h"
#include "rm_client.h"

#define PROC_VERSION "/proc/driver/nvidia/version"

/* NUMBER.NUMBER[.NUMBER], and nothing behind it. */
static bool is_version(const char *text)
{
	unsigned int major, minor, patch = 0;
	int end = 0;
	int count = sscanf(text, "%5u.%5u%n.%5u%n", &major, &minor, &end, &patch, &end);

	return count >= 2 && text[end] == '\0' && text[strspn(text, "0123456789.")] == '\0' && major <= UINT16_MAX &&
		minor <= UINT16_MAX && patch <= UINT16_MAX;
}

/* The line has the version as a word of its own, in a place that differs between the kinds of module. */
static bool from_proc(char *driver, size_t room)
{
	char line[512], *word, *rest = line;
	FILE *file = fopen(PROC_VERSION, "re");
	bool found = false;

	if (!file)
		return false;
	if (fgets(line, sizeof(line), file)) {
		while (!found && (word = strsep(&rest, " \t\n")))
			found = is_version(word) && strlen(word) < room && strcpy(driver, word);
	}
	fclose(file);
	return found;
}

/* Asks the driver, as every user of it does first. */
static void from_node(const char *dev, char *driver, size_t room)
{
	struct settings settings = { .dev = dev, .magic = NV_IOCTL_MAGIC, .direction = _IOC_READ | _IOC_WRITE };
	int fd = driver_open(&settings, "nvidiactl");

	if (fd < 0)
		return;
	driver_version(&settings, fd);
	close(fd);
	if (is_version(settings.version))
		snprintf(driver, room, "%s", settings.version);
}

bool version_find(struct version *version, const struct options *options)
{
	size_t room = sizeof(version->driver);
	const struct nv_abi_version *at;

	memset(version, 0, sizeof(*version));
	if (options->driver) {
		if (!is_version(options->driver) || strlen(options->driver) >= room)
			return false;
		strcpy(version->driver, options->driver);
	} else if (strcmp(options->dev, "/dev") != 0 || !from_proc(version->driver, room)) {
		from_node(options->dev, version->driver, room);
	}
	at = driver_table(version->driver);
	if (!at)
		return true;
	version->key = NV_VERSION_KEY(at->major, at->minor, at->patch);
	version->abi = &nv_abi_layouts[at->layout];
	snprintf(version->layouts, sizeof(version->layouts), at->patch ? "%u.%02u.%02u" : "%u.%02u", at->major,
		at->minor, at->patch);
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
