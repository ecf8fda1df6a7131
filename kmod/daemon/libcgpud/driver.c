// SPDX-License-Identifier: Apache-2.0
/* The engine's own RM client: GPUs, their memory, bytes of processes, existence of clients and objects. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>

#include "descriptors.h"
#include "driver.h"
#include "rm.h"

#define HANDLE_BASE 0xc9d00000u
#define HANDLE_PAGE (HANDLE_BASE + 2 * CGPU_MAX_GPUS)
#define PAGE_OF_CARD 65536u

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

static int gpu_control(struct driver *driver, u32 gpu, u32 cmd, u8 *params, u32 bytes)
{
	int r;

	if (gpu >= driver->gpus)
		return -ENOENT;
	if (driver->gpu[gpu].away)
		return -ENXIO;
	pthread_mutex_lock(&driver->lock);
	r = rm_control(driver->fd, driver->abi, driver->client, driver->gpu[gpu].subdevice, cmd, params, bytes);
	pthread_mutex_unlock(&driver->lock);
	if (r == NV_ERR_GPU_IS_LOST)
		return -ENXIO;
	return r > 0 ? -EIO : r;
}

int driver_gpu_memory(struct driver *driver, u32 gpu, u64 *total, u64 *unused)
{
	const struct nv_layout_NV2080_CTRL_FB_GET_INFO_V2_PARAMS *l = &driver->abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS;
	const struct nv_layout_NV2080_CTRL_FB_INFO *entry = &driver->abi->NV2080_CTRL_FB_INFO;
	u32 first = l->fbInfoList, second = first + entry->bytes, questions;
	u8 buf[2048];
	int r = -EPROTO;

	/* The driver hides a MIG card's free memory from a client without an instance; the total stays known. */
	for (questions = 2; r < 0 && r != -ENXIO && questions && l->bytes <= sizeof(buf); questions--) {
		memset(buf, 0, sizeof(buf));
		put32(buf, l->fbInfoListSize, questions);
		put32(buf, first + entry->index, NV2080_CTRL_FB_INFO_INDEX_TOTAL_RAM_SIZE);
		put32(buf, second + entry->index, NV2080_CTRL_FB_INFO_INDEX_HEAP_FREE);
		r = gpu_control(driver, gpu, NV2080_CTRL_CMD_FB_GET_INFO_V2, buf, l->bytes);
		*total = (u64)get32(buf, first + entry->data) << 10;
		*unused = questions == 2 ? (u64)get32(buf, second + entry->data) << 10 : 0;
	}
	/* A lost GPU is no error of the driver: the other GPUs may be well. */
	atomic_store(&driver->error, r < 0 && r != -ENXIO ? (u32)-r : 0);
	return r;
}

int driver_gpu_mig(struct driver *driver, u32 gpu, u32 *mig)
{
	const struct nv_layout_NV2080_CTRL_GPU_GET_INFO_V2_PARAMS *l = &driver->abi->NV2080_CTRL_GPU_GET_INFO_V2_PARAMS;
	const struct nv_layout_NV2080_CTRL_GPU_INFO *entry = &driver->abi->NV2080_CTRL_GPU_INFO;
	u8 buf[1024] = { 0 };
	u32 mode;
	int r;

	if (l->bytes > sizeof(buf))
		return -EPROTO;
	put32(buf, l->gpuInfoListSize, 1);
	put32(buf, l->gpuInfoList + entry->index, NV2080_CTRL_GPU_INFO_INDEX_GPU_SMC_MODE);
	r = gpu_control(driver, gpu, NV2080_CTRL_CMD_GPU_GET_INFO_V2, buf, l->bytes);
	mode = get32(buf, l->gpuInfoList + entry->data);
	/* src/common/src/nv_smg.c, DeviceInMigMode() */
	*mig = mode == NV2080_CTRL_GPU_INFO_GPU_SMC_MODE_ENABLED ||
		mode == NV2080_CTRL_GPU_INFO_GPU_SMC_MODE_DISABLE_PENDING;
	return r;
}

static void copy_text(char *to, size_t bytes, const u8 *from, size_t from_bytes)
{
	size_t i;

	for (i = 0; i + 1 < bytes && i < from_bytes && from[i]; i++)
		to[i] = from[i] > 0x1f && from[i] < 0x7f ? (char)from[i] : '?';
	to[i] = 0;
}

/* Read the text that one control returns. */
static int ask_text(struct driver *driver, u32 gpu, u32 cmd, u32 bytes, u32 at, char *text, size_t text_bytes)
{
	u8 buf[512] = { 0 };
	int r = gpu_control(driver, gpu, cmd, buf, bytes);

	if (r == 0)
		copy_text(text, text_bytes, buf + at, 64);
	return r;
}

int driver_gpu_facts(struct driver *driver, u32 gpu, struct cgpu_gpu_facts *facts)
{
	const struct nv_layout_NV2080_CTRL_GPU_GET_GID_INFO_PARAMS *gid =
		&driver->abi->NV2080_CTRL_GPU_GET_GID_INFO_PARAMS;
	const struct nv_layout_NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS *name =
		&driver->abi->NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS;
	u64 unused;
	int r;

	memset(facts, 0, sizeof(*facts));
	facts->index = gpu;
	facts->minor = driver->gpu[gpu].minor;
	facts->gpu_id = driver->gpu[gpu].gpu_id;
	facts->device_instance = driver->gpu[gpu].device_instance;
	r = ask_text(
		driver, gpu, NV2080_CTRL_CMD_GPU_GET_GID_INFO, gid->bytes, gid->data, facts->uuid, sizeof(facts->uuid));
	if (r == 0)
		r = ask_text(driver, gpu, NV2080_CTRL_CMD_GPU_GET_NAME_STRING, name->bytes, name->gpuNameString,
			facts->name, sizeof(facts->name));
	if (r < 0)
		return r;
	return driver_gpu_memory(driver, gpu, &facts->memtotal, &unused);
}

int driver_process_bytes(struct driver *driver, u32 gpu, s32 tgid, u64 *used)
{
	const struct nv_layout_NV2080_CTRL_GPU_GET_PID_INFO_PARAMS *l =
		&driver->abi->NV2080_CTRL_GPU_GET_PID_INFO_PARAMS;
	const struct nv_layout_NV2080_CTRL_GPU_PID_INFO *entry = &driver->abi->NV2080_CTRL_GPU_PID_INFO;
	u8 buf[16384] = { 0 };
	u8 *at = buf + l->pidInfoList;
	int r;

	if (l->bytes > sizeof(buf))
		return -EPROTO;
	put32(buf, l->pidInfoListCount, 1);
	put32(at, entry->pid, (u32)tgid);
	put32(at, entry->index, NV2080_CTRL_GPU_PID_INFO_INDEX_VIDEO_MEMORY_USAGE);
	r = gpu_control(driver, gpu, NV2080_CTRL_CMD_GPU_GET_PID_INFO, buf, l->bytes);
	if (r < 0)
		return r;
	*used = get64(at, entry->data_vidMemUsage_memPrivate) + get64(at, entry->data_vidMemUsage_memSharedOwned) +
		get64(at, entry->data_vidMemUsage_memSharedDuped);
	return 0;
}

int driver_gpu_processes(struct driver *driver, u32 gpu, s32 *tgid, u32 most)
{
	const struct nv_layout_NV2080_CTRL_GPU_GET_PIDS_PARAMS *l = &driver->abi->NV2080_CTRL_GPU_GET_PIDS_PARAMS;
	u8 buf[4096] = { 0 };
	u32 count, i;
	int r;

	if (l->bytes > sizeof(buf))
		return -EPROTO;
	put32(buf, l->idType, NV2080_CTRL_GPU_GET_PIDS_ID_TYPE_CLASS);
	put32(buf, l->id, NV20_SUBDEVICE_0);
	r = gpu_control(driver, gpu, NV2080_CTRL_CMD_GPU_GET_PIDS, buf, l->bytes);
	if (r < 0)
		return r;
	count = get32(buf, l->pidTblCount);
	if (count > (l->bytes - l->pidTbl) / 4u)
		count = (l->bytes - l->pidTbl) / 4u;
	for (i = 0; i < count && i < most; i++)
		tgid[i] = (s32)get32(buf, l->pidTbl + 4 * i);
	return (int)i;
}

/*
 * Whether a client, or an object of it, is in the driver: by asking for a duplicate. The source client is
 * looked up before the source object, and both before any right is judged:
 * src/nvidia/src/libraries/resserv/src/rs_server.c, serverCopyResource.
 */

/* A handle that no client has: RM's own begin at 0xc1d00000, and a client picks its handles itself. */
#define HANDLE_IMPOSSIBLE 0xfeedfacfu

/* Free a duplicate that the driver made against expectation. */
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
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *l = &driver->abi->NV_MEMORY_ALLOCATION_PARAMS;
	u32 handle = HANDLE_PAGE;
	u8 params[256] = { 0 };
	int r;

	if (gpu >= driver->gpus || driver->gpu[gpu].away || l->bytes > sizeof(params))
		return -ENXIO;
	put32(params, l->owner, HANDLE_PAGE);
	put32(params, l->type, NVOS32_TYPE_IMAGE);
	put32(params, l->attr, NVOS32_ATTR_LOCATION_VIDMEM);
	put64(params, l->size, PAGE_OF_CARD);
	pthread_mutex_lock(&driver->lock);
	r = rm_alloc(driver->fd, driver->abi, driver->client, HANDLE_BASE + 2 * gpu, &handle, NV01_MEMORY_LOCAL_USER,
		params, l->bytes);
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
