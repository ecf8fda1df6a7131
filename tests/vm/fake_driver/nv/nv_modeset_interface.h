/* SPDX-License-Identifier: GPL-2.0-only */
/* Interface of nvidia.ko for other kernel modules, laid out as in kernel-open/common/inc/nv-modeset-interface.h. */
#ifndef FAKE_NV_MODESET_INTERFACE_H
#define FAKE_NV_MODESET_INTERFACE_H

#include <linux/types.h>

struct nvidia_stack;

typedef struct {
	u32 gpu_id;
	struct {
		u32 domain;
		u8 bus, slot, function;
	} pci_info;
	u8 needs_numa_setup;
	void *os_device_ptr;
} nv_gpu_info_t;

typedef struct {
	const char *version_string;
	struct {
		u8 allow_write_combining;
	} system_info;
	int (*alloc_stack)(struct nvidia_stack **sp);
	void (*free_stack)(struct nvidia_stack *sp);
	u32 (*enumerate_gpus)(nv_gpu_info_t *gpu_info);
	/* From 595 on both have a third argument, whether the caller knows of resets; it means nothing here. */
	int (*open_gpu)(u32 gpu_id, struct nvidia_stack *sp);
	void (*close_gpu)(u32 gpu_id, struct nvidia_stack *sp);
	void (*op)(struct nvidia_stack *sp, void *ops_cmd);
	void *set_callbacks; /* The engine does not call it. */
} nvidia_modeset_rm_ops_t;

u32 nvidia_get_rm_ops(nvidia_modeset_rm_ops_t *rm_ops);

#endif
