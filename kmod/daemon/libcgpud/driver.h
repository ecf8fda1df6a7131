/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's own conversation with the driver: which GPUs there are, what is free on them, what a
 * process holds, whether a client lives. No input from containers. */
#ifndef CGPUD_DRIVER_H
#define CGPUD_DRIVER_H

#include <pthread.h>
#include <stdatomic.h>

#include "cgpu_core.h"
#include "device.h"

struct driver_gpu {
	u32 minor, gpu_id, device_instance, subdevice;
	u32 away; /* it could not be attached when the driver was opened, and is asked nothing */
};

struct driver {
	pthread_mutex_t lock;
	int fd; /* nvidiactl; -1 when there is none */
	u32 client;
	atomic_uint error; /* errno of the last question about memory, or 0: the driver answers */
	char version[64];
	enum cgpu_abi_source source;
	const struct nv_abi *abi;
	struct nv_abi row; /* its layouts, where a row has them */
	u32 gpus;
	struct driver_gpu gpu[CGPU_MAX_GPUS]; /* in the order of their minors */
};

/* Open the control node below root, check the version, make a client. rows: see cgpu_abi_choose(). Errors as cgpud_open. */
int driver_open(
	struct driver *driver, const char *root, const char *rows, u32 allow_unknown, char *error, size_t bytes);
void driver_close(struct driver *driver);
/* Find the GPUs, open their nodes, and add them to devices. A GPU that is lost, or cannot be started, is away. */
int driver_find_gpus(struct driver *driver, const char *root, struct devices *devices, char *error, size_t bytes);
/* Facts of one GPU, from the driver. These return 0 or a negative errno, -ENXIO: the driver has lost the GPU. */
int driver_gpu_facts(struct driver *driver, u32 gpu, struct cgpu_gpu_facts *facts);
/* unused: 0 where MIG hides it. */
int driver_gpu_memory(struct driver *driver, u32 gpu, u64 *total, u64 *unused);
/* Whether a GPU is in MIG mode: 1 or 0. */
int driver_gpu_mig(struct driver *driver, u32 gpu, u32 *mig);
/* Bytes a process holds on a GPU, by the driver's own count. */
int driver_process_bytes(struct driver *driver, u32 gpu, s32 tgid, u64 *used);
/* The processes that use a GPU, of all that this daemon's pid namespace shows. Returns how many, or a negative errno. */
int driver_gpu_processes(struct driver *driver, u32 gpu, s32 *tgid, u32 most);
/* Take a page of a GPU in this thread, and give it back. 0 or a negative errno. */
int driver_take_page(struct driver *driver, u32 gpu);
/* 1 when the driver surely no longer knows the client, else 0. */
int driver_client_gone(struct driver *driver, u32 client);
/* 1 when the driver knows the client, and surely no such object of it. */
int driver_object_gone(struct driver *driver, u32 client, u32 object);

#endif
