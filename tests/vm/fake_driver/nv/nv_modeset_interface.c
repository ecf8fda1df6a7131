// SPDX-License-Identifier: GPL-2.0-only
/* The RM API for other kernel modules (kernel-open/nvidia/nv-modeset-interface.c). */
#include <linux/export.h>

#include "driver.h"
#include "nv_modeset_interface.h"

static u32 enumerate_gpus(nv_gpu_info_t *gpu_info)
{
	u32 i;

	for (i = 0; i < nvidia_card->card_count; i++) {
		const struct nv_state *nv = nv_device(i);

		gpu_info[i] = (nv_gpu_info_t){ .gpu_id = nv->gpu_id };
		gpu_info[i].pci_info.domain = nv->pci_info.domain;
		gpu_info[i].pci_info.bus = nv->pci_info.bus;
		gpu_info[i].pci_info.slot = nv->pci_info.slot;
		gpu_info[i].pci_info.function = nv->pci_info.function;
	}
	return nvidia_card->card_count;
}

noinline u32 nvidia_get_rm_ops(nvidia_modeset_rm_ops_t *rm_ops)
{
	if (knob_fails(__func__) || strcmp(rm_ops->version_string, nvidia_version) != 0) {
		rm_ops->version_string = nvidia_version;
		return NV_ERR_GENERIC;
	}
	*rm_ops = (nvidia_modeset_rm_ops_t){
		.version_string = nvidia_version,
		.alloc_stack = nv_kmem_cache_alloc_stack,
		.free_stack = nv_kmem_cache_free_stack,
		.enumerate_gpus = enumerate_gpus,
		.open_gpu = nvidia_dev_get,
		.close_gpu = nvidia_dev_put,
		.op = rm_kernel_rmapi_op,
	};
	return NV_OK;
}
EXPORT_SYMBOL(nvidia_get_rm_ops);
