// SPDX-License-Identifier: Apache-2.0
/* The engine's own RM client: GPUs, their memory, bytes of processes, existence of clients and objects. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>

#include "cgpu_card.h"
#include "descriptors.h"
#include "driver.h"
#include "rm.h"

#define HANDLE_BASE 0xc9d00000u
#define HANDLE_PAGE (HANDLE_BASE + 2 * CGPU_MAX_GPUS)

static int ask_version(struct driver *driver)
{
	u8 buf[256] = { 0 };
	/* The reply is the same in every layout: it has to be read before a layout can be picked. */
	const struct nv_layout_nv_ioctl_rm_api_version_t *l = &driver->abi->nv_ioctl_rm_api_version_t;
	int r;

	put32(buf, l->cmd, '2'); /* NV_RM_API_VERSION_CMD_QUERY */
	r = rm_call(driver->fd, NV_ESC_CHECK_VERSION_STR, buf, l->bytes);
	if (r < 0)
		return r;
	memcpy(driver->version, buf + l->versionString, sizeof(driver->version) - 1);
	return 0;
}

static int choose_layouts(struct driver *driver, const char *rows, u32 allow_unknown, char *error, size_t bytes)
{
	driver->abi = cgpu_abi_choose(driver->version, rows, (int)allow_unknown, &driver->row, &driver->source);
	if (driver->abi)
		return 0;
	snprintf(error, bytes,
		"driver version %s is not in the table; expected one from 515.43.04 on, and allow_unknown_driver: true "
		"in /etc/cgpu/config.yaml",
		driver->version);
	return -EPROTO;
}

int driver_open(struct driver *driver, const char *root, const char *rows, u32 allow_unknown, char *error, size_t bytes)
{
	char path[256];
	int r;

	memset(driver, 0, sizeof(*driver));
	pthread_mutex_init(&driver->lock, NULL);
	snprintf(path, sizeof(path), "%s/nvidiactl", root);
	driver->fd = open(path, O_RDWR | O_CLOEXEC);
	if (driver->fd < 0) {
		r = -errno;
		snprintf(error, bytes, "%s: %s; load the NVIDIA driver; to try without a GPU: cgpud --simulate T4",
			path, strerror(-r));
		return r == -ENOENT ? -ENODEV : r;
	}
	driver->abi = &nv_abi_layouts[0];
	r = ask_version(driver);
	if (r < 0) {
		snprintf(error, bytes, "%s: does not tell its version: %s", path, strerror(-r));
		return -ENODEV;
	}
	r = choose_layouts(driver, rows, allow_unknown, error, bytes);
	if (r < 0)
		return r;
	r = rm_alloc(driver->fd, driver->abi, 0, 0, &driver->client, NV01_ROOT_CLIENT, NULL, 0);
	if (r)
		snprintf(error, bytes, "%s: gives no client (status 0x%x)", path, r);
	return r ? -ENODEV : 0;
}

void driver_close(struct driver *driver)
{
	close_one(&driver->fd);
	pthread_mutex_destroy(&driver->lock);
}

/* Cards in the order of their minors. Returns how many, or a negative errno. */
static int read_cards(struct driver *driver)
{
	const struct nv_layout_nv_ioctl_card_info_t *l = &driver->abi->nv_ioctl_card_info_t;
	u8 buf[CGPU_MAX_GPUS * 128] = { 0 };
	u32 i, k;
	int r;

	if (l->bytes > 128)
		return -EPROTO;
	r = rm_call(driver->fd, NV_ESC_CARD_INFO, buf, l->bytes * CGPU_MAX_GPUS);
	for (i = 0; r == 0 && i < CGPU_MAX_GPUS; i++) {
		const u8 *card = buf + (size_t)i * l->bytes;
		struct driver_gpu gpu = { .minor = get32(card, l->minor_number), .gpu_id = get32(card, l->gpu_id) };

		if (!card[l->valid])
			continue;
		for (k = driver->gpus++; k && driver->gpu[k - 1].minor > gpu.minor; k--)
			driver->gpu[k] = driver->gpu[k - 1];
		driver->gpu[k] = gpu;
	}
	return r < 0 ? r : (int)driver->gpus;
}

static int is_attached(const struct nv_abi *abi, const u8 *ids, u32 gpu_id)
{
	u32 i;

	for (i = 0; i < NV0000_CTRL_GPU_MAX_ATTACHED_GPUS; i++)
		if (get32(ids, abi->NV0000_CTRL_GPU_GET_ATTACHED_IDS_PARAMS.gpuIds + 4 * i) == gpu_id)
			return 1;
	return 0;
}

/* Device and subdevice objects of one GPU, through which it is asked later. */
static int attach_gpu(struct driver *driver, u32 index)
{
	const struct nv_layout_NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS *info =
		&driver->abi->NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS;
	struct driver_gpu *gpu = &driver->gpu[index];
	u8 buf[256] = { 0 };
	int r;

	put32(buf, info->gpuId, gpu->gpu_id);
	r = rm_control(driver->fd, driver->abi, driver->client, driver->client, NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2, buf,
		info->bytes);
	if (r)
		return r;
	gpu->device_instance = get32(buf, info->deviceInstance);
	gpu->subdevice = HANDLE_BASE + 2 * index + 1;
	return rm_subdevice(
		driver->fd, driver->abi, driver->client, gpu->device_instance, HANDLE_BASE + 2 * index, gpu->subdevice);
}

/* An open node keeps its GPU attached: the driver says nothing of one that sleeps. */
static int open_nodes(struct driver *driver, const char *root, struct devices *devices, char *error, size_t bytes)
{
	char path[256];
	int fd, r = 0;
	u32 i;

	for (i = 0; r == 0 && i < driver->gpus; i++) {
		snprintf(path, sizeof(path), "%s/nvidia%u", root, driver->gpu[i].minor);
		fd = open(path, O_RDWR | O_CLOEXEC);
		/* nvidia_open() in kernel-open/nvidia/nv.c: the card does not start. */
		driver->gpu[i].away = fd < 0 && errno == EIO;
		r = fd < 0 && !driver->gpu[i].away ? -errno : devices_add(devices, path, fd, CGPU_DEVICE_GPU, i);
		if (r < 0)
			snprintf(error, bytes, "%s: %s", path, strerror(-r));
	}
	return r;
}

int driver_find_gpus(struct driver *driver, const char *root, struct devices *devices, char *error, size_t bytes)
{
	u8 ids[256] = { 0 };
	u32 i;
	int r = read_cards(driver);

	if (r < 0) {
		snprintf(error, bytes, "%s/nvidiactl: does not list its cards: %s", root, strerror(-r));
		return r;
	}
	r = open_nodes(driver, root, devices, error, bytes);
	if (r < 0)
		return r;
	r = rm_control(driver->fd, driver->abi, driver->client, driver->client, NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS,
		ids, driver->abi->NV0000_CTRL_GPU_GET_ATTACHED_IDS_PARAMS.bytes);
	for (i = 0; r == 0 && i < driver->gpus; i++) {
		if (driver->gpu[i].away)
			continue;
		r = NV_ERR_INVALID_DEVICE;
		if (is_attached(driver->abi, ids, driver->gpu[i].gpu_id))
			r = attach_gpu(driver, i);
		if (r == NV_ERR_GPU_IS_LOST) {
			driver->gpu[i].away = 1;
			r = 0;
		}
		if (r)
			snprintf(error, bytes, "%s/nvidia%u: the driver does not attach it (status 0x%x)", root,
				driver->gpu[i].minor, r);
	}
	return r ? -ENODEV : 0;
}

/* A GPU that the core asks. */
struct asked {
	struct cgpu_card_client card;
	struct driver *driver;
	u32 gpu;
	u8 params[CGPU_CARD_ROOM];
};

static int asked_control(struct cgpu_card_client *card, u32 command, u32 bytes)
{
	const struct asked *asked = card->ctx;
	struct driver *driver = asked->driver;
	u32 gpu = asked->gpu;
	int r;

	if (gpu >= driver->gpus)
		return -ENOENT;
	if (driver->gpu[gpu].away)
		return -ENXIO;
	pthread_mutex_lock(&driver->lock);
	r = rm_control(
		driver->fd, driver->abi, driver->client, driver->gpu[gpu].subdevice, command, card->params, bytes);
	pthread_mutex_unlock(&driver->lock);
	if (r == NV_ERR_GPU_IS_LOST)
		return -ENXIO;
	return r > 0 ? -EIO : r;
}

static struct cgpu_card_client *ask(struct asked *asked, struct driver *driver, u32 gpu)
{
	asked->driver = driver;
	asked->gpu = gpu;
	asked->card = (struct cgpu_card_client){
		.abi = driver->abi,
		.ctx = asked,
		.params = asked->params,
		.room = sizeof(asked->params),
		.control = asked_control,
	};
	return &asked->card;
}

int driver_gpu_memory(struct driver *driver, u32 gpu, u64 *total, u64 *unused)
{
	struct asked asked;
	int r = cgpu_card_memory(ask(&asked, driver, gpu), total, unused);

	/* A lost GPU is no error of the driver: the other GPUs may be well. */
	atomic_store(&driver->error, r < 0 && r != -ENXIO ? (u32)-r : 0);
	return r;
}

int driver_gpu_mig(struct driver *driver, u32 gpu, u32 *mig)
{
	struct asked asked;
	u32 has_mig;

	return cgpu_card_mig(ask(&asked, driver, gpu), mig, &has_mig);
}

int driver_gpu_facts(struct driver *driver, u32 gpu, struct cgpu_gpu_facts *facts)
{
	struct asked asked;
	u64 unused;
	int r;

	memset(facts, 0, sizeof(*facts));
	facts->index = gpu;
	facts->minor = driver->gpu[gpu].minor;
	facts->gpu_id = driver->gpu[gpu].gpu_id;
	facts->device_instance = driver->gpu[gpu].device_instance;
	r = cgpu_card_names(ask(&asked, driver, gpu), facts);
	return r < 0 ? r : driver_gpu_memory(driver, gpu, &facts->memtotal, &unused);
}

int driver_process_bytes(struct driver *driver, u32 gpu, s32 tgid, u64 *used)
{
	struct asked asked;

	return cgpu_card_process_bytes(ask(&asked, driver, gpu), tgid, used);
}

int driver_gpu_processes(struct driver *driver, u32 gpu, s32 *tgid, u32 most)
{
	struct asked asked;

	return cgpu_card_processes(ask(&asked, driver, gpu), tgid, most);
}

/*
 * Whether a client, or an object of it, is in the driver: by asking for a duplicate. The source client is
 * looked up before the source object, and both before any right is judged:
 * src/nvidia/src/libraries/resserv/src/rs_server.c, serverCopyResource.
 */

/* A handle that no client has: RM's own begin at 0xc1d00000, and a client picks its handles itself. */
#define HANDLE_IMPOSSIBLE 0xfeedfacfu

/* Free an object of our own client. */
static void drop(struct driver *driver, u32 handle)
{
	const struct nv_layout_NVOS00_PARAMETERS *l = &driver->abi->NVOS00_PARAMETERS;
	u8 top[128] = { 0 };

	put32(top, l->hRoot, driver->client);
	put32(top, l->hObjectOld, handle);
	rm_call(driver->fd, NV_ESC_RM_FREE, top, l->bytes);
}

int driver_take_page(struct driver *driver, u32 gpu)
{
	u8 params[256];
	u32 handle = HANDLE_PAGE, bytes = cgpu_card_page(driver->abi, HANDLE_PAGE, params, sizeof(params));
	int r;

	if (gpu >= driver->gpus || driver->gpu[gpu].away || bytes == 0)
		return -ENXIO;
	pthread_mutex_lock(&driver->lock);
	r = rm_alloc(driver->fd, driver->abi, driver->client, HANDLE_BASE + 2 * gpu, &handle, NV01_MEMORY_LOCAL_USER,
		params, bytes);
	if (r == NV_OK)
		drop(driver, handle);
	pthread_mutex_unlock(&driver->lock);
	return r > 0 ? -EIO : r;
}

static int probe(struct driver *driver, u32 client, u32 object)
{
	u32 handle = HANDLE_IMPOSSIBLE;
	int r = rm_dup(driver->fd, driver->abi, driver->client, driver->client, &handle, client, object);

	if (r == NV_OK)
		drop(driver, handle);
	return r;
}

int driver_client_gone(struct driver *driver, u32 client)
{
	int gone;

	pthread_mutex_lock(&driver->lock);
	gone = probe(driver, client, HANDLE_IMPOSSIBLE);
	gone = gone == NV_ERR_INVALID_OBJECT_HANDLE || gone == NV_ERR_INVALID_CLIENT;
	/* The same status would tell of our own client: believe it only while that one answers. */
	if (gone)
		gone = probe(driver, driver->client, HANDLE_IMPOSSIBLE) == NV_ERR_OBJECT_NOT_FOUND;
	pthread_mutex_unlock(&driver->lock);
	return gone;
}

int driver_object_gone(struct driver *driver, u32 client, u32 object)
{
	int gone;

	pthread_mutex_lock(&driver->lock);
	gone = probe(driver, client, object) == NV_ERR_OBJECT_NOT_FOUND;
	pthread_mutex_unlock(&driver->lock);
	return gone;
}
