// SPDX-License-Identifier: GPL-2.0-only
/*
 * Mappings of open files (kernel-open/nvidia/nv-mmap.c, nv-usermap.c). The simulated card readies none, so all that is here is
 * what a kernel module looks for by name.
 */
#include <linux/fs.h>
#include <linux/mm.h>

#include "driver.h"

#define probed noinline __attribute__((__noipa__))

probed u32 nv_add_mapping_context_to_file(
	struct nv_state *nv, const u64 *access, u32 prot, void *memory, u64 page, u32 fd)
{
	return NV_ERR_NOT_SUPPORTED;
}

probed int nvidia_mmap(struct file *file, struct vm_area_struct *vma)
{
	return -EINVAL;
}

probed vm_fault_t nvidia_fault(struct vm_fault *fault)
{
	return VM_FAULT_SIGBUS;
}

probed int nvidia_vma_access(struct vm_area_struct *vma, unsigned long address, void *buffer, int length, int write)
{
	return -EINVAL;
}

probed void nvidia_vma_release(struct vm_area_struct *vma)
{
}

probed void os_unmap_user_space(void *address, u64 bytes, void *private)
{
}

probed u32 nv_free_pages(struct nv_state *nv, u32 count, bool contiguous, u32 cache, void *memory)
{
	return NV_OK;
}

probed void nv_unregister_user_pages(struct nv_state *nv, u64 count, void **private, void **memory)
{
}

probed void nv_unregister_peer_io_mem(struct nv_state *nv, void *memory)
{
}
