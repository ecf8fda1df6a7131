// SPDX-License-Identifier: Apache-2.0
/*
 * What a driver answers to calls of every wrong kind, and to some right ones: one line each, with the call's name, its
 * errno or 0, and the status in its structure. The same lines are wanted of NVIDIA's driver and of the fake one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "client.h"

#define ROOM 4096u
#define KERNEL_ADDRESS 0xffff888000001000ull
#define ANY_HANDLE 0x5c00abcdu
#define NO_COMMAND 0x20801ffeu

static const struct nv_abi *abi;
static struct settings settings;

static void say(const char *name, int result)
{
	printf("%s: %s\n", name, result < 0 ? strerrorname_np(errno) : "ok");
}

static void say_status(const char *name, int result, uint32_t status)
{
	if (result < 0)
		printf("%s: %s\n", name, strerrorname_np(errno));
	else
		printf("%s: status %#x\n", name, status);
}

/* A command as CUDA numbers it. */
static int ask(int fd, uint32_t nr, void *data, size_t size)
{
	return ioctl(fd, _IOC(3, 'F', nr, size), data);
}

static int open_minor(unsigned int minor, int flags)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/tmp/answers-%u", minor);
	unlink(path);
	if (mknod(path, S_IFCHR | 0600, makedev(NV_NVIDIA_MAJOR, minor)))
		return -1;
	fd = open(path, flags | O_CLOEXEC);
	unlink(path);
	return fd;
}

static void try_nodes(int ctl)
{
	struct pollfd polled = { .fd = ctl, .events = POLLIN };
	char byte = 0;

	say("open card read-only", open("/dev/nvidia0", O_RDONLY | O_CLOEXEC));
	say("open minor without card", open_minor(1, O_RDWR));
	say("open last regular minor", open_minor(NV_GPU_MINOR_MAX, O_RDWR));
	say("read control", (int)read(ctl, &byte, 1));
	say("write control", (int)write(ctl, &byte, 1));
	say("seek control", (int)lseek(ctl, 0, SEEK_SET));
	say("map control", mmap(NULL, 4096, PROT_READ, MAP_SHARED, ctl, 0) == MAP_FAILED ? -1 : 0);
	printf("poll control: %d %#x\n", poll(&polled, 1, 0), (unsigned int)polled.revents);
}

static void try_numbers(int ctl, int card)
{
	static const uint32_t numbers[] = { 0, 1, NV_ESC_RM_FREE, NV_ESC_RM_CONTROL, NV_ESC_RM_ALLOC,
		NV_ESC_RM_VID_HEAP_CONTROL, NV_ESC_RM_DUP_OBJECT, NV_ESC_RM_SHARE, NV_ESC_CARD_INFO,
		NV_ESC_CHECK_VERSION_STR, NV_ESC_SYS_PARAMS, NV_ESC_ATTACH_GPUS_TO_FD, NV_ESC_REGISTER_FD,
		NV_ESC_ALLOC_OS_EVENT, NV_ESC_QUERY_DEVICE_INTR, NV_ESC_EXPORT_TO_DMABUF_FD, 254, 255 };
	static const size_t sizes[] = { 0, 1, 4, ROOM };
	uint8_t data[ROOM];
	char name[64];
	size_t i, k, fd;

	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		for (k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
			for (fd = 0; fd < 2; fd++) {
				memset(data, 0, sizeof(data));
				snprintf(name, sizeof(name), "number %u size %zu on %s", numbers[i], sizes[k],
					fd ? "card" : "control");
				say(name, ask(fd ? card : ctl, numbers[i], data, sizes[k]));
			}
		}
	}
}

static void try_pointers(int ctl)
{
	static const uint64_t pointers[] = { 0, 1, KERNEL_ADDRESS };
	static const uint32_t numbers[] = { NV_ESC_RM_ALLOC, NV_ESC_CARD_INFO, NV_ESC_IOCTL_XFER_CMD };
	static const size_t sizes[] = { 32, 72 * 32, 16 };
	char name[64];
	size_t i, k;

	for (i = 0; i < 3; i++) {
		for (k = 0; k < 3; k++) {
			snprintf(name, sizeof(name), "number %u pointer %#llx", numbers[i],
				(unsigned long long)pointers[k]);
			say(name, ask(ctl, numbers[i], (void *)(uintptr_t)pointers[k], sizes[i]));
		}
	}
}

static void wrap(int ctl, const char *name, uint32_t nr, uint32_t size, const void *data)
{
	const struct nv_layout_nv_ioctl_xfer_t *at = &abi->nv_ioctl_xfer_t;
	uint8_t wrapper[16] = { 0 };

	put32(wrapper, at->cmd, nr);
	put32(wrapper, at->size, size);
	put64(wrapper, at->ptr, (uintptr_t)data);
	say(name, ask(ctl, NV_ESC_IOCTL_XFER_CMD, wrapper, sizeof(wrapper)));
}

static void try_wrapper(int ctl)
{
	uint8_t data[ROOM] = { 0 };

	wrap(ctl, "wrapped itself", NV_ESC_IOCTL_XFER_CMD, 16, data);
	wrap(ctl, "wrapped too large", NV_ESC_RM_ALLOC, NV_MAX_IOCTL_XFER_SIZE + 1, data);
	wrap(ctl, "wrapped empty", NV_ESC_RM_ALLOC, 0, data);
	wrap(ctl, "wrapped nowhere", NV_ESC_RM_ALLOC, 32, NULL);
	wrap(ctl, "wrapped kernel", NV_ESC_RM_ALLOC, 32, (void *)(uintptr_t)KERNEL_ADDRESS);
	wrap(ctl, "wrapped version", NV_ESC_CHECK_VERSION_STR, 72, data);
	wrap(ctl, "wrapped wrong number", NV_ESC_RM_ALLOC | 0x100, 32, data);
}

static void try_attach(const uint32_t *ids)
{
	uint32_t wrong = 0xdead, none = 0;
	int ctl = driver_open(&settings, "nvidiactl"), card = driver_open(&settings, "nvidia0");

	say("attach unknown", ask(ctl, NV_ESC_ATTACH_GPUS_TO_FD, &wrong, 4));
	say("attach size 3", ask(ctl, NV_ESC_ATTACH_GPUS_TO_FD, &wrong, 3));
	say("attach on card", ask(card, NV_ESC_ATTACH_GPUS_TO_FD, (void *)ids, 4));
	say("attach none", ask(ctl, NV_ESC_ATTACH_GPUS_TO_FD, &none, 4));
	say("attach again", ask(ctl, NV_ESC_ATTACH_GPUS_TO_FD, (void *)ids, 4));
	close(ctl);
	ctl = driver_open(&settings, "nvidiactl");
	say("attach", ask(ctl, NV_ESC_ATTACH_GPUS_TO_FD, (void *)ids, 4));
	say("attach twice", ask(ctl, NV_ESC_ATTACH_GPUS_TO_FD, (void *)ids, 4));
	close(ctl);
	close(card);
}

static uint32_t allocate(int fd, uint32_t client, uint32_t parent, uint32_t handle, uint32_t class_id, int *result)
{
	struct rm_ioctl io = rm_alloc_ioctl(abi, VIA_RM21, client, parent, handle, class_id, NULL, 0);

	*result = ask(fd, io.nr, io.data, io.bytes);
	if (class_id == NV01_ROOT_CLIENT && *result == 0 && get32(io.data, io.status) == NV_OK)
		*result = (int)(get32(io.data, io.handle) & 0x7fffffff);
	return get32(io.data, io.status);
}

static void try_allocate(const char *name, int fd, uint32_t client, uint32_t parent, uint32_t class_id)
{
	int result;
	uint32_t status = allocate(fd, client, parent, ANY_HANDLE, class_id, &result);

	say_status(name, result, status);
}

static void control(const char *name, int fd, uint32_t client, uint32_t object, uint32_t command, uint32_t size)
{
	uint8_t params[ROOM] = { 0 };
	struct rm_ioctl io = rm_control_ioctl(abi, client, object, command, size ? params : NULL, size);
	int result = ask(fd, io.nr, io.data, io.bytes);

	say_status(name, result, get32(io.data, io.status));
}

static void release(const char *name, int fd, uint32_t client, uint32_t object)
{
	struct rm_ioctl io = rm_free_ioctl(abi, client, 0, object);
	int result = ask(fd, io.nr, io.data, io.bytes);

	say_status(name, result, get32(io.data, io.status));
}

/* A handle of one's own for a new client, as an object's and as the client's; is it the client's then? */
static void try_chosen_clients(int fd)
{
	static const struct {
		const char *name;
		uint32_t client, handle;
	} ways[] = { { "client by an object's handle", 0, 0xc1d77701 }, { "client by its own", 0xc1d77702, 0 },
		{ "client by both", 0xc1d77703, 0xc1d77704 }, { "client again", 0xc1d77702, 0xc1d77702 },
		{ "client out of range", 0x00077705, 0x00077705 } };
	uint32_t status, chosen;
	int result;
	size_t i;

	for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		status = allocate(fd, ways[i].client, 0, ways[i].handle, NV01_ROOT_CLIENT, &result);
		say_status(ways[i].name, result, status);
		chosen = ways[i].client ? ways[i].client : ways[i].handle;
		if (result > 0)
			printf("%s: %s handle\n", ways[i].name,
				result == (int)(chosen & 0x7fffffff) ? "that" : "another");
	}
}

/* Objects and controls with names that are nobody's, on a session that is as it should be. */
static void try_objects(struct session *own, int other)
{
	uint32_t client = own->client, wrong = 0xc1dfffff;
	uint32_t ids = abi->NV0000_CTRL_GPU_GET_ATTACHED_IDS_PARAMS.bytes;

	try_allocate("allocate of no client", own->ctl, wrong, wrong, NV01_DEVICE_0);
	try_allocate("allocate below nothing", own->ctl, client, ANY_HANDLE, NV01_MEMORY_LOCAL_USER);
	try_allocate("allocate unknown class", own->ctl, client, client, 0xabcd);
	try_allocate("allocate class elsewhere", own->ctl, client, client, NV01_MEMORY_LOCAL_USER);
	try_allocate("allocate without parameters", own->ctl, client, own->device, NV01_MEMORY_LOCAL_USER);
	try_allocate("allocate privileged class", own->ctl, client, own->device, NV01_MEMORY_LOCAL_PHYSICAL);
	try_allocate("allocate by another file", other, client, client, NV01_DEVICE_0);
	control("control of no client", own->ctl, wrong, wrong, NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS, ids);
	control("control of no object", own->ctl, client, ANY_HANDLE, NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS, ids);
	control("control unknown", own->ctl, client, own->subdevice, NO_COMMAND, 16);
	control("control elsewhere", own->ctl, client, own->device, NV2080_CTRL_CMD_FB_GET_INFO_V2,
		abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS.bytes);
	control("control wrong size", own->ctl, client, client, NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS, ids - 4);
	control("control without parameters", own->ctl, client, client, NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS, 0);
	control("control by another file", other, client, client, NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS, ids);
	control("control", own->ctl, client, client, NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS, ids);
	release("free of no client", own->ctl, wrong, wrong);
	release("free of nothing", own->ctl, client, ANY_HANDLE);
	release("free by another file", other, client, own->device);
	release("free", own->ctl, client, own->device);
	release("free again", own->ctl, client, own->device);
}

int main(int argc, char **argv)
{
	uint32_t ids[RM_MAX_GPUS], count;
	struct session session;
	int ctl, card;

	client_begin(&settings, &argc, &argv);
	abi = settings.abi;
	ctl = driver_open(&settings, "nvidiactl");
	card = driver_open(&settings, "nvidia0");
	if (ctl < 0 || card < 0 || driver_cards(&settings, ctl, ids, &count) != NV_OK)
		return perror("nvidia"), 1;
	try_nodes(ctl);
	try_numbers(ctl, card);
	try_pointers(ctl);
	try_wrapper(ctl);
	try_attach(ids);
	client_open(&session, &settings);
	try_objects(&session, ctl);
	try_chosen_clients(ctl);
	return 0;
}
