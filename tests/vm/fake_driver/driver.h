/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The fake nvidia.ko: files of the open half of the driver (kernel-open/nvidia: nv.c, os-interface.c …) call
 * those of the half that comes as a binary (rm*.c), and that one calls the simulated card (kmod/sim).
 */
#ifndef FAKE_DRIVER_H
#define FAKE_DRIVER_H

#include <linux/atomic.h>
#include <linux/mm_types.h>
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#include "sim.h"

struct inode;
struct file;

#define NV_FLAG_CONTROL 0x1000

/* Separate stack that the binary half wants; here it has none. */
struct nvidia_stack {
	u32 size;
	void *top;
};

/* One device, the control device too. The first fields lie as in the driver's nv_state_t (nv.h). */
struct nv_state {
	void *priv;
	void *os_state;
	int flags;
	struct {
		u32 domain;
		u8 bus, slot, function;
		u16 vendor_id, device_id;
	} pci_info;
	u16 subsystem_id;
	u16 subsystem_vendor;
	u32 gpu_id;
	u32 card;
	atomic_t kernel_opens;
	atomic_t kernel_opened; /* how often, in all */
};

/* The binary half's part of an open file. */
struct nv_file_private {
	struct open_file *file;
};

/* file->private_data */
struct nv_linux_file_private {
	struct nv_file_private nvfp;
	struct nv_state *nvptr;
	struct work_struct close_work;
	u32 *attached_gpus;
	size_t num_attached_gpus;
};

/* card.c */
extern struct sim *nvidia_card;
extern const char nvidia_version[];
int card_create(void);
void card_destroy(void);

/* nv.c */
extern struct nv_state nv_ctl_device;
struct nv_state *nv_find_device(u32 gpu_id);
struct nv_state *nv_device(u32 card);
struct nv_state *nv_get_adapter_state(u32 domain, u8 bus, u8 slot);
u32 nv_get_dev_minor(struct nv_state *nv);
int nv_kmem_cache_alloc_stack(struct nvidia_stack **sp);
void nv_kmem_cache_free_stack(struct nvidia_stack *sp);
struct nv_file_private *nv_get_file_private(int fd, bool ctl, void **os_private);
void nv_put_file_private(void *os_private);
int nvidia_dev_get(u32 gpu_id, struct nvidia_stack *sp);
void nvidia_dev_put(u32 gpu_id, struct nvidia_stack *sp);
int nvidia_dev_get_uuid(const u8 *uuid, struct nvidia_stack *sp);
void nvidia_dev_put_uuid(const u8 *uuid, struct nvidia_stack *sp);

/* nv_ioctl.c */
long nvidia_unlocked_ioctl(struct file *file, unsigned int cmd, unsigned long i_arg);

/* nv_doorbell.c */
ssize_t nvidia_write(struct file *file, const char __user *data, size_t size, loff_t *at);
ssize_t nvidia_read(struct file *file, char __user *out, size_t size, loff_t *at);

/* nv_mmap.c */
u32 nv_add_mapping_context_to_file(struct nv_state *nv, const u64 *access, u32 prot, void *memory, u64 page, u32 fd);
int nvidia_mmap(struct file *file, struct vm_area_struct *vma);
vm_fault_t nvidia_fault(struct vm_fault *fault);
void nvidia_vma_release(struct vm_area_struct *vma);
int nvidia_vma_access(struct vm_area_struct *vma, unsigned long address, void *buffer, int length, int write);
void os_unmap_user_space(void *address, u64 bytes, void *private);
u32 nv_free_pages(struct nv_state *nv, u32 count, bool contiguous, u32 cache, void *memory);
void nv_unregister_user_pages(struct nv_state *nv, u64 count, void **private, void **memory);
void nv_unregister_peer_io_mem(struct nv_state *nv, void *memory);

/* nv_procfs.c */
int nv_procfs_init(void);
void nv_procfs_exit(void);

/* nv_dmabuf.c */
u32 nv_dma_buf_export(struct nv_state *nv, void *params);

/* os_interface.c */
u32 os_memcpy_from_user(void *to, const void *from, u32 n);
u32 os_memcpy_to_user(void *to, const void *from, u32 n);

/* rm.c: the binary half's entry points. */
u32 rm_ioctl(struct nvidia_stack *sp, struct nv_state *nv, struct nv_file_private *nvfp, u32 cmd, void *data, u32 size);
void rm_cleanup_file_private(struct nvidia_stack *sp, struct nv_state *nv, struct nv_file_private *nvfp);
void rm_kernel_rmapi_op(struct nvidia_stack *sp, void *ops_cmd);

/* rm_dmabuf.c: too. */
u32 rm_dma_buf_get_client_and_device(
	struct nvidia_stack *sp, struct nv_state *nv, u32 *client, u32 *device, u32 *subdevice, void **instance);
void rm_dma_buf_put_client_and_device(
	struct nvidia_stack *sp, struct nv_state *nv, u32 client, u32 device, u32 subdevice, void *instance);
u32 rm_dma_buf_dup_mem_handle(struct nvidia_stack *sp, struct nv_state *nv, u32 source, u32 target, u32 device,
	u32 subdevice, void *instance, u32 handle, u64 offset, u64 size, u64 rest1, u64 rest2, u64 rest3, u64 rest4,
	u64 rest5, u64 rest6, u64 rest7);
void rm_dma_buf_undup_mem_handle(struct nvidia_stack *sp, struct nv_state *nv, u32 client, u32 handle);

/* card.c: knobs of tests. */
bool knob_defer_close(void);
void knob_sleep(void);
void knob_linger(void);
/* Whether nested buffers are copied in this way: see the parameter test_copies. */
bool knob_copies(const char *way);
/* Whether the test wants this function to fail. */
bool knob_fails(const char *function);
/* Whether stopping channels costs nothing, as nothing comes of it. */
bool knob_free_gates(void);

#endif
