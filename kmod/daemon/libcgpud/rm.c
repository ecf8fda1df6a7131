// SPDX-License-Identifier: Apache-2.0
/* Makes single calls to the driver. */
#include <sys/ioctl.h>

#include "rm.h"
#include "rm_structs.h"

#define RM_TOP_MAX 256

int rm_call(int fd, u32 nr, u8 *top, u32 bytes)
{
	/* _IOC and not _IOWR: the size is no compile-time type. 3: read and write. */
	return ioctl(fd, _IOC(3u, NV_IOCTL_MAGIC, nr, bytes), top) < 0 ? -errno : 0;
}

/* Makes a call, and returns the driver's status or a negative errno. */
static int make(int fd, struct rm_ioctl *io)
{
	int r = rm_call(fd, io->nr, io->data, io->bytes);

	return r < 0 ? r : (int)get32(io->data, io->status);
}

int rm_alloc(int fd, const struct nv_abi *abi, u32 client, u32 parent, u32 *handle, u32 class, u8 *params, u32 bytes)
{
	struct rm_ioctl io = rm_alloc_ioctl(abi, VIA_RM21, client, parent, *handle, class, params, bytes);
	int status = make(fd, &io);

	if (status >= 0)
		*handle = get32(io.data, io.handle);
	return status;
}

int rm_control(int fd, const struct nv_abi *abi, u32 client, u32 object, u32 cmd, u8 *params, u32 bytes)
{
	struct rm_ioctl io = rm_control_ioctl(abi, client, object, cmd, params, bytes);

	return make(fd, &io);
}

int rm_subdevice(int fd, const struct nv_abi *abi, u32 client, u32 device_instance, u32 device, u32 subdevice)
{
	u8 buf[RM_TOP_MAX] = { 0 };
	int r;

	put32(buf, abi->NV0080_ALLOC_PARAMETERS.deviceId, device_instance);
	r = rm_alloc(fd, abi, client, client, &device, NV01_DEVICE_0, buf, abi->NV0080_ALLOC_PARAMETERS.bytes);
	if (r)
		return r;
	memset(buf, 0, sizeof(buf));
	return rm_alloc(fd, abi, client, device, &subdevice, NV20_SUBDEVICE_0, buf, abi->NV2080_ALLOC_PARAMETERS.bytes);
}

int rm_dup(int fd, const struct nv_abi *abi, u32 client, u32 parent, u32 *handle, u32 source, u32 object)
{
	struct rm_ioctl io = rm_dup_ioctl(abi, client, parent, *handle, source, object);
	int status = make(fd, &io);

	*handle = get32(io.data, io.handle);
	return status;
}
