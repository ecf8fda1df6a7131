/* SPDX-License-Identifier: GPL-2.0 */
/* The fake nvidia-uvm.ko. */
#ifndef FAKE_UVM_H
#define FAKE_UVM_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rbtree.h>
#include <linux/types.h>

#include "fields.h"
#include "nv_uvm_interface.h"

#define UVM_CHUNK_SIZE (2ull << 20)

struct address_space;
struct file;
struct mm_struct;
struct vm_area_struct;

/* A card in use by anybody: one device for all address spaces, as in uvm_gpu.c. */
struct uvm_gpu {
	struct list_head node;
	NvProcessorUuid uuid;
	uvmGpuDeviceHandle device;
	void *pma;
	unsigned int refs;
};

struct uvm_va_space {
	struct mutex lock;
	u64 flags;
	/* The process that initialized it; NULL when several may use it. */
	struct mm_struct *mm;
	bool mm_file;
	bool initialized;
	struct uvm_gpu *gpus[UVM_MAX_CARDS];
	uvmGpuAddressSpaceHandle address_spaces[UVM_MAX_CARDS];
	struct rb_root ranges;
};

enum uvm_va_range_type {
	UVM_VA_RANGE_TYPE_MANAGED,
	UVM_VA_RANGE_TYPE_EXTERNAL,
	UVM_VA_RANGE_TYPE_SEMAPHORE_POOL,
};

/* Begins as the driver's: uvm_va_range.h, uvm_range_tree.h. */
struct uvm_va_range {
	struct uvm_va_space *va_space;
	struct {
		u64 start;
		u64 end; /* the last byte */
		struct rb_node rb_node;
		struct list_head list;
	} node;
	enum uvm_va_range_type type;
};

/* A mapping, as its managed range knows it. */
struct uvm_vma_wrapper {
	struct vm_area_struct *vma;
	struct uvm_va_range *range;
};

enum uvm_fd_type { UVM_FD_UNINITIALIZED, UVM_FD_VA_SPACE, UVM_FD_MM };

/* file->private_data */
struct uvm_file {
	struct mutex lock;
	enum uvm_fd_type type;
	struct uvm_va_space *space;
	/* Of UVM_FD_MM: the file whose address space it keeps usable. */
	struct file *target;
};

/* uvm.c */
struct uvm_file *uvm_file_of(struct file *file);
/* How address spaces come to be: in one function since 530, in two before. */
bool uvm_creates_at_once(void);
u32 uvm_va_space_create(struct address_space *mapping, struct uvm_va_space **va_space_ptr, u64 flags);
struct uvm_va_space *uvm_va_space_open(void);
u32 uvm_va_space_initialize(struct uvm_va_space *va_space, u64 flags);
void uvm_va_space_destroy(struct uvm_va_space *space);
bool uvm_hmm_is_enabled(const struct uvm_va_space *va_space);

/* uvm_ioctl.c */
long uvm_ioctl(struct file *file, unsigned int cmd, unsigned long arg);

/* uvm_gpu.c: the registered cards of an address space; its lock is held. */
u32 uvm_gpu_retain_by_uuid(const NvProcessorUuid *gpu_uuid, const void *user_rm_device, struct uvm_gpu **gpu_out);
void uvm_gpu_hold(struct uvm_gpu *gpu);
void uvm_gpu_put(struct uvm_gpu *gpu);
struct uvm_gpu **uvm_space_gpu(struct uvm_va_space *space, const u8 *uuid);
u32 uvm_api_register_gpu(struct uvm_va_space *space, u8 *params);
u32 uvm_api_unregister_gpu(struct uvm_va_space *space, u8 *params);
u32 uvm_api_register_gpu_va_space(struct uvm_va_space *space, u8 *params);
u32 uvm_api_unregister_gpu_va_space(struct uvm_va_space *space, u8 *params);
void uvm_space_drop_gpu(struct uvm_va_space *space, unsigned int slot);

/* uvm_range.c: with the space's lock held. */
bool uvm_span_is_valid(u64 base, u64 length);
void uvm_va_range_init(
	struct uvm_va_range *range, struct uvm_va_space *space, u64 start, u64 end, enum uvm_va_range_type type);
u32 uvm_va_range_add(struct uvm_va_range *range);
struct uvm_va_range *uvm_va_range_find(const struct uvm_va_space *space, u64 address);
struct uvm_va_range *uvm_va_range_first(const struct uvm_va_space *space);
struct uvm_va_range *uvm_va_range_next(const struct uvm_va_range *range);
void uvm_va_range_destroy(struct uvm_va_range *range, struct list_head *deferred_free_list);

/* uvm_external.c: ranges for memory that a client allocated; the space's lock is held. */
u32 uvm_api_create_external_range(struct uvm_va_space *space, u8 *params);
u32 uvm_api_map_external_allocation(struct uvm_va_space *space, u8 *params);
u32 uvm_api_unmap_external(struct uvm_va_space *space, u8 *params);
u32 uvm_api_free(struct uvm_va_space *space, u8 *params);
void uvm_external_drop_gpu(struct uvm_va_space *space, const struct uvm_gpu *gpu);
void uvm_external_destroy(struct uvm_va_range *range);

/* uvm_semaphore_pool.c: with the space's lock held. */
u32 uvm_api_alloc_semaphore_pool(struct uvm_va_space *space, u8 *params);
int uvm_semaphore_pool_map(struct uvm_va_range *range, struct vm_area_struct *vma);
void uvm_semaphore_pool_destroy(struct uvm_va_range *range);

/* uvm_managed.c */
int uvm_managed_mmap(struct uvm_va_space *space, struct vm_area_struct *vma);
/* The space's lock is held. */
u32 uvm_va_range_create_mmap(struct uvm_va_space *va_space, struct mm_struct *mm, struct uvm_vma_wrapper *vma_wrapper,
	struct uvm_va_range **out_va_range);
u32 uvm_va_range_split(struct uvm_va_range *existing, u64 new_end, struct uvm_va_range **new_va_range);
void uvm_managed_destroy(struct uvm_va_range *range);
u32 uvm_api_validate_va_range(struct uvm_va_space *space, u8 *params);

#endif
