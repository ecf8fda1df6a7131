/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's nodes. The engine knows a character device by its number, any other node by its file, for every
 * driver and simulated card. */
#ifndef CGPUD_DEVICE_H
#define CGPUD_DEVICE_H

#include <pthread.h>
#include "cgpu_core.h"

#define DEVICES_MAX (CGPU_MAX_GPUS + 8)
#define DEVICE_MAJORS_MAX 16

/* Identity of a file: the device number of a character device, else file system and inode. */
struct identity {
	u32 is_char;
	u32 major, minor; /* of a character device */
	u64 device, inode; /* of any other file */
};

struct device {
	enum cgpu_device kind;
	u32 gpu;
	int fd; /* held open, so that a file system cannot give the node another number; may be -1 */
	struct identity identity;
	char path[256];
};

struct devices {
	u32 count;
	struct device at[DEVICES_MAX];
	pthread_mutex_t lock; /* of the majors */
	u32 majors;
	struct {
		u32 major;
		enum cgpu_device kind;
	} major[DEVICE_MAJORS_MAX];
};

void devices_init(struct devices *devices);
void devices_close(struct devices *devices);
/* Learn a node. Owns fd (may be -1: looked at by path only). -ENOENT, -ENOSPC. */
int devices_add(struct devices *devices, const char *path, int fd, enum cgpu_device kind, u32 gpu);
/* Learn the nodes that have to be known besides control node and GPUs. A missing one is no error. */
void devices_find_others(struct devices *devices, const char *root);
/* Read the driver's character majors anew: modules may be loaded later. */
void devices_read_majors(struct devices *devices);
/* The major number of a node of that kind among those that are known; 0: there is none. */
u32 devices_major(const struct devices *devices, enum cgpu_device kind);
/* 1 when both are the same file, or the same character device. */
int identity_same(const struct identity *a, const struct identity *b);
/* Look at a descriptor (fd, path ""), or at a path (fd AT_FDCWD), without asking the file's server:
 * it may be a container's own file system, that never answers. 0 or negative errno. */
int identity_of(int fd, const char *path, struct identity *identity);
/* 1 and kind (and gpu) when the file is one of the driver's nodes, else 0. */
int devices_identify(struct devices *devices, const struct identity *identity, enum cgpu_device *kind, u32 *gpu);

#endif
