// SPDX-License-Identifier: GPL-2.0
/* A container's call readies a file to be mapped, or tells where it has mapped it. */
#include <linux/file.h>
#include <linux/slab.h>

#include "fields.h"
#include "mappings/mappings.h"

struct ready_call {
	void *nv;
	const u64 *access; /* nv_usermap_access_params_t, which begins with the address */
	u32 prot;
	void *memory; /* of the host; NULL: it is the card's */
	u64 page;
	u32 fd;
};

static bool ready_wants(struct pt_regs *regs)
{
	const struct km_task_call *task_call = km_task_call_current();
	struct km_identity identity;

	return km_enforce && task_call && !READ_ONCE(task_call->readied) && km_identity_of_current(&identity);
}
NOKPROBE_SYMBOL(ready_wants);

/* The driver looks the descriptor up by itself, and is given this file. */
static __nocfi u32 ready_run(struct km_task_call *task_call, const struct ready_call *call, struct file *file)
{
	u32 (*original)(void *, const u64 *, u32, void *, u64, u32) = (void *)km_probe_map_ready.original;
	u32 status;

	WRITE_ONCE(task_call->readied, file);
	status = original(call->nv, call->access, call->prot, call->memory, call->page, call->fd);
	WRITE_ONCE(task_call->readied, NULL);
	return status;
}

/* Note the event that ends the mapping. Returns false where that could not be seen. */
static bool ready_describe(struct mapping *mapping, const struct km_task_call *task_call, const struct ready_call *call)
{
	if (call->memory) {
		mapping->key = (uintptr_t)call->memory;
		return true;
	}
	if (task_call->nr != NV_ESC_RM_MAP_MEMORY || !task_call->client_file)
		return false;
	mapping->key = task_call->client;
	mapping->address = *call->access & PAGE_MASK;
	mapping->client_file = task_call->client_file;
	return true;
}

/* The mapping is on record before the file can be mapped. A file has one, as with the driver. */
static u32 ready_file(struct km_task_call *task_call, const struct ready_call *call, struct file *file)
{
	struct mapping *mapping = kzalloc(sizeof(*mapping), GFP_KERNEL_ACCOUNT);
	u32 status = NV_ERR_NO_MEMORY;

	if (!mapping)
		return status;
	mapping->file = file;
	mutex_init(&mapping->lock);
	refcount_set(&mapping->users, 1);
	if (!ready_describe(mapping, task_call, call))
		status = NV_ERR_INSUFFICIENT_PERMISSIONS;
	else if (!mapping_add(mapping))
		status = NV_ERR_STATE_IN_USE;
	else
		return ready_run(task_call, call, file);
	kfree(mapping);
	return status;
}

/* nv_add_mapping_context_to_file(). After an error the file stays on record, and unmapped, to its end. */
static u32 ready_mapping(void *nv, const u64 *access, u32 prot, void *memory, u64 page, u32 fd)
{
	const struct ready_call call = { nv, access, prot, memory, page, fd };
	struct file *file = fget(fd);
	u32 status = NV_ERR_INVALID_ARGUMENT;

	if (file && km_is_driver_file(file))
		status = ready_file(km_task_call_current(), &call, file);
	if (file)
		fput(file);
	km_probe_leave();
	return status;
}

void km_mapping_moved(const struct nv_abi *abi, const u8 *top)
{
	const struct nv_layout_NVOS56_PARAMETERS *at = &abi->NVOS56_PARAMETERS;
	u64 from = get64(top, at->pOldCpuAddress) & PAGE_MASK, to = get64(top, at->pNewCpuAddress) & PAGE_MASK;
	struct mapping *mapping = NULL;

	if (get32(top, at->status) == NV_OK && from != to)
		mapping = mapping_get_by_key(get32(top, at->hClient), from);
	if (!mapping)
		return;
	WRITE_ONCE(mapping->address, to);
	mapping_put(mapping);
}

KM_PROBE(map_ready, "nvidia", "nv_add_mapping_context_to_file", ready_mapping, ready_wants);
