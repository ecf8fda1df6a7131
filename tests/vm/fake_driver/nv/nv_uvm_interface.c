// SPDX-License-Identifier: GPL-2.0-only
/* The functions that nvidia-uvm.ko calls (kernel-open/nvidia/nv_uvm_interface.c). */
#include <linux/export.h>
#include <linux/kprobes.h>
#include <linux/moduleparam.h>

#include "driver.h"
#include "nv_uvm_interface.h"

noinline u32 nvUvmInterfaceRegisterGpu(const NvProcessorUuid *gpuUuid, UvmGpuPlatformInfo *gpuInfo)
{
	return nvidia_dev_get_uuid(gpuUuid->uuid, NULL) == 0 ? NV_OK : NV_ERR_OBJECT_NOT_FOUND;
}
EXPORT_SYMBOL(nvUvmInterfaceRegisterGpu);

noinline void nvUvmInterfaceUnregisterGpu(const NvProcessorUuid *gpuUuid)
{
	nvidia_dev_put_uuid(gpuUuid->uuid, NULL);
}
EXPORT_SYMBOL(nvUvmInterfaceUnregisterGpu);

noinline u32 nvUvmInterfaceDupMemory(
	uvmGpuDeviceHandle device, u32 hClient, u32 hPhysMemory, u32 *hDupMemory, UvmGpuMemoryInfo *pGpuMemoryInfo)
{
	return NV_ERR_NOT_SUPPORTED;
}
EXPORT_SYMBOL(nvUvmInterfaceDupMemory);

noinline u32 nvUvmInterfaceFreeDupedHandle(uvmGpuDeviceHandle device, u32 hPhysHandle)
{
	return NV_ERR_NOT_SUPPORTED;
}
EXPORT_SYMBOL(nvUvmInterfaceFreeDupedHandle);

noinline u32 nvUvmInterfaceRetainChannel(uvmGpuAddressSpaceHandle vaSpace, u32 hClient, u32 hChannel,
	void **retainedChannel, UvmGpuChannelInstanceInfo *channelInstanceInfo)
{
	return NV_ERR_NOT_SUPPORTED;
}
EXPORT_SYMBOL(nvUvmInterfaceRetainChannel);

noinline void nvUvmInterfaceReleaseChannel(void *retainedChannel)
{
	barrier();
}
EXPORT_SYMBOL(nvUvmInterfaceReleaseChannel);

/*
 * For tests: the kernel calls no probe of a function that is called inside the handler of another one, and counts it as
 * missed. This probe of ours is hit by a call of what it lies on.
 */
static noinline void hit_probe(void)
{
	barrier();
}

static int miss_another(struct kprobe *probe, struct pt_regs *regs)
{
	nvUvmInterfaceReleaseChannel(NULL);
	return 0;
}

static int miss_set(const char *text, const struct kernel_param *parameter)
{
	struct kprobe probe = { .addr = (kprobe_opcode_t *)hit_probe, .pre_handler = miss_another };
	int result = register_kprobe(&probe);

	if (result != 0)
		return result;
	hit_probe();
	unregister_kprobe(&probe);
	return 0;
}
static const struct kernel_param_ops miss_ops = { .set = miss_set };
module_param_cb(test_miss, &miss_ops, NULL, 0200);
MODULE_PARM_DESC(test_miss, "for tests: have a call of nvUvmInterfaceReleaseChannel() go by its probe");

const struct nv_abi *fake_abi(void)
{
	return nvidia_card->abi;
}
EXPORT_SYMBOL_GPL(fake_abi);
