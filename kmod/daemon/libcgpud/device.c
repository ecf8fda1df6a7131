// SPDX-License-Identifier: Apache-2.0
/* Tells which node of the driver a file is. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "descriptors.h"
#include "device.h"

#define DRM_MAJOR_NR 226u /* Documentation/admin-guide/devices.txt */

void devices_init(struct devices *devices)
{
	memset(devices, 0, sizeof(*devices));
	pthread_mutex_init(&devices->lock, NULL);
	devices_read_majors(devices);
}

void devices_close(struct devices *devices)
{
	u32 i;

	for (i = 0; i < devices->count; i++)
		close_any(devices->at[i].fd);
	devices->count = 0;
	pthread_mutex_destroy(&devices->lock);
}

int identity_of(int fd, const char *path, struct identity *identity)
{
	struct statx st;

	if (statx(fd, path, AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, &st) < 0)
		return -errno;
	identity->is_char = S_ISCHR(st.stx_mode) ? 1 : 0;
	identity->major = st.stx_rdev_major;
	identity->minor = st.stx_rdev_minor;
	identity->device = (u64)st.stx_dev_major << 32 | st.stx_dev_minor;
	identity->inode = st.stx_ino;
	return 0;
}

int devices_add(struct devices *devices, const char *path, int fd, enum cgpu_device kind, u32 gpu)
{
	struct device *device = &devices->at[devices->count];
	int r = -ENOSPC;

	if (devices->count < DEVICES_MAX && strlen(path) < sizeof(device->path))
		r = identity_of(fd >= 0 ? fd : AT_FDCWD, fd >= 0 ? "" : path, &device->identity);
	if (r < 0) {
		close_any(fd);
		return r;
	}
	device->kind = kind;
	device->gpu = gpu;
	device->fd = fd;
	snprintf(device->path, sizeof(device->path), "%s", path);
	devices->count++;
	return 0;
}

void devices_find_others(struct devices *devices, const char *root)
{
	static const struct {
		const char *name;
		enum cgpu_device kind;
	} nodes[] = { { "nvidia-uvm", CGPU_DEVICE_UVM }, { "nvidia-uvm-tools", CGPU_DEVICE_UVM },
		{ "nvidia-modeset", CGPU_DEVICE_OTHER } };
	char path[256];
	size_t i;

	for (i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", root, nodes[i].name);
		devices_add(devices, path, -1, nodes[i].kind, 0);
	}
}

static int major_kind(const char *name, enum cgpu_device *kind)
{
	if (!strcmp(name, "nvidia-uvm"))
		*kind = CGPU_DEVICE_UVM;
	else if (!strncmp(name, "nvidia", 6))
		*kind = CGPU_DEVICE_OTHER;
	else
		return 0;
	return 1;
}

void devices_read_majors(struct devices *devices)
{
	FILE *file = fopen("/proc/devices", "re");
	char line[128], name[64];
	u32 major, count = 0;

	pthread_mutex_lock(&devices->lock);
	devices->major[count].major = NV_NVIDIA_MAJOR;
	devices->major[count++].kind = CGPU_DEVICE_OTHER;
	/* /dev/dri: a process can allocate the card's memory there, too, and no node says which card is its own. */
	devices->major[count].major = DRM_MAJOR_NR;
	devices->major[count++].kind = CGPU_DEVICE_OTHER;
	while (file && count < DEVICE_MAJORS_MAX && fgets(line, sizeof(line), file)) {
		enum cgpu_device kind;

		if (!strncmp(line, "Block", 5))
			break;
		if (sscanf(line, "%u %63s", &major, name) != 2 || !major_kind(name, &kind))
			continue;
		devices->major[count].major = major;
		devices->major[count++].kind = kind;
	}
	devices->majors = count;
	pthread_mutex_unlock(&devices->lock);
	if (file)
		fclose(file);
}

/* A node of the driver that is not in the table: a GPU plugged in later, modeset, capabilities. */
static int identify_major(struct devices *devices, u32 major, enum cgpu_device *kind)
{
	int found = 0;
	u32 i;

	pthread_mutex_lock(&devices->lock);
	for (i = 0; i < devices->majors && !found; i++) {
		if (devices->major[i].major != major)
			continue;
		*kind = devices->major[i].kind;
		found = 1;
	}
	pthread_mutex_unlock(&devices->lock);
	return found;
}

u32 devices_major(const struct devices *devices, enum cgpu_device kind)
{
	u32 i;

	for (i = 0; i < devices->count; i++)
		if (devices->at[i].kind == kind && devices->at[i].identity.is_char)
			return devices->at[i].identity.major;
	return 0;
}

int identity_same(const struct identity *a, const struct identity *b)
{
	if (a->is_char != b->is_char)
		return 0;
	if (a->is_char)
		return a->major == b->major && a->minor == b->minor;
	return a->device == b->device && a->inode == b->inode;
}

int devices_identify(struct devices *devices, const struct identity *identity, enum cgpu_device *kind, u32 *gpu)
{
	u32 i;

	*gpu = 0;
	for (i = 0; i < devices->count; i++) {
		if (!identity_same(&devices->at[i].identity, identity))
			continue;
		*kind = devices->at[i].kind;
		*gpu = devices->at[i].gpu;
		return 1;
	}
	return identity->is_char && identify_major(devices, identity->major, kind);
}
