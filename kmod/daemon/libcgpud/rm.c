// SPDX-License-Identifier: Apache-2.0
/* Makes single calls to the driver. */
#include <sys/ioctl.h>

#include "rm.h"

#define RM_TOP_MAX 256

int rm_call(int fd, u32 nr, u8 *top, u32 bytes)
{
	/* _IOC and not _IOWR: the size is no compile-time type. 3: read and write. */
	return ioctl(fd, _IOC(3u, NV_IOCTL_MAGIC, nr, bytes), top) < 0 ? -errno : 0;
}

int rm_alloc(int fd, const struct nv_abi *abi, u32 client, u32 parent, u32 *handle, u32 class, u8 *params, u32 bytes)
{
	const struct nv_layout_NVOS21_PARAMETERS *l = &abi->NVOS21_PARAMETERS;
	u8 top[RM_TOP_MAX] = { 0 };
	int r;

	rm_put32(top, l->hRoot, client);
	rm_put32(top, l->hObjectParent, parent);
	rm_put32(top, l->hObjectNew, *handle);
	rm_put32(top, l->hClass, class);
	rm_put64(top, l->pAllocParms, (uintptr_t)params);
	if (l->paramsSize != NV_ABI_ABSENT)
		rm_put32(top, l->paramsSize, bytes);
	r = rm_call(fd, NV_ESC_RM_ALLOC, top, l->bytes);
	if (r < 0)
		return r;
	*handle = rm_get32(top, l->hObjectNew);
	return (int)rm_get32(top, l->status);
}

int rm_control(int fd, const struct nv_abi *abi, u32 client, u32 object, u32 cmd, u8 *params, u32 bytes)
{
	const struct nv_layout_NVOS54_PARAMETERS *l = &abi->NVOS54_PARAMETERS;
	u8 top[RM_TOP_MAX] = { 0 };
	int r;

	rm_put32(top, l->hClient, client);
	rm_put32(top, l->hObject, object);
	rm_put32(top, l->cmd, cmd);
	rm_put64(top, l->params, (uintptr_t)params);
	rm_put32(top, l->paramsSize, bytes);
	r = rm_call(fd, NV_ESC_RM_CONTROL, top, l->bytes);
	return r < 0 ? r : (int)rm_get32(top, l->status);
}

int rm_subdevice(int fd, const struct nv_abi *abi, u32 client, u32 device_instance, u32 device, u32 subdevice)
{
	u8 buf[RM_TOP_MAX] = { 0 };
	int r;

	rm_put32(buf, abi->NV0080_ALLOC_PARAMETERS.deviceId, device_instance);
	r = rm_alloc(fd, abi, client, client, &device, NV01_DEVICE_0, buf, abi->NV0080_ALLOC_PARAMETERS.bytes);
	if (r)
		return r;
	memset(buf, 0, sizeof(buf));
	return rm_alloc(fd, abi, client, device, &subdevice, NV20_SUBDEVICE_0, buf, abi->NV2080_ALLOC_PARAMETERS.bytes);
}

int rm_dup(int fd, const struct nv_abi *abi, u32 client, u32 parent, u32 *handle, u32 source, u32 object)
{
	const struct nv_layout_NVOS55_PARAMETERS *l = &abi->NVOS55_PARAMETERS;
	u8 top[RM_TOP_MAX] = { 0 };
	int r;

	rm_put32(top, l->hClient, client);
	rm_put32(top, l->hParent, parent);
	rm_put32(top, l->hObject, *handle);
	rm_put32(top, l->hClientSrc, source);
	rm_put32(top, l->hObjectSrc, object);
	r = rm_call(fd, NV_ESC_RM_DUP_OBJECT, top, l->bytes);
	*handle = rm_get32(top, l->hObject);
	return r < 0 ? r : (int)rm_get32(top, l->status);
}
