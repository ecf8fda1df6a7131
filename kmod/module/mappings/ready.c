// SPDX-License-Identifier: GPL-2.0-only
/* A container's call readies a file to be mapped, tells where it has mapped it, and unmaps it by that. */
#include <linux/file.h>
#include <linux/slab.h>

#include "fields.h"
#include "mappings/mappings.h"

struct ready_call {
	void *nv;
	const u64 *access; /* nv_usermap_access_params_t, which begins with address and size */
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

KM_EXTERNAL(map_ready, u32(void *, const u64 *, u32, void *, u64, u32));

/* The driver looks the descriptor up by itself, and is given this file. */
static u32 ready_run(struct km_task_call *task_call, const struct ready_call *call, struct file *file)
{
	u32 status;

	WRITE_ONCE(task_call->readied, file);
	status = km_call(map_ready)(call->nv, call->access, call->prot, call->memory, call->page, call->fd);
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
	mapping->window = call->access[0];
	mapping->bytes = call->access[1];
	mapping->address = mapping->window;
	mapping->memory = task_call->memory;
	mapping->client_file = task_call->client_file;
	return true;
}

/* After an error the file stays on record, and unmapped, to its end. */
static u32 ready_noted(
	struct mapping *mapping, struct km_task_call *task_call, const struct ready_call *call, struct file *file)
{
	u32 status = ready_run(task_call, call, file);

	if (status == NV_OK)
		return status;
	mutex_lock(&mapping->lock);
	mapping->ended = true;
	mutex_unlock(&mapping->lock);
	mapping_note_ended(mapping);
	return status;
}

bool km_mapping_reserve(struct km_task_call *task_call, u32 nr)
{
	if (!km_enforce || (nr != NV_ESC_RM_MAP_MEMORY && nr != NV_ESC_RM_ALLOC_MEMORY))
		return true;
	task_call->spare = kzalloc(sizeof(*task_call->spare), GFP_KERNEL_ACCOUNT);
	return task_call->spare != NULL;
}

/*
 * The mapping is on record before the file can be mapped. A file has one, as with the driver. The driver's locks are held: nothing is
 * allocated here that the container's memory limit could delay.
 */
static u32 ready_file(struct km_task_call *task_call, const struct ready_call *call, struct file *file)
{
	struct mapping *mapping = task_call->spare;
	u32 status = NV_ERR_NO_MEMORY;

	if (!mapping)
		return status;
	task_call->spare = NULL;
	mapping->file = file;
	mutex_init(&mapping->lock);
	refcount_set(&mapping->users, 1);
	if (!ready_describe(mapping, task_call, call))
		status = NV_ERR_INSUFFICIENT_PERMISSIONS;
	else if (!mapping_add(mapping))
		status = NV_ERR_STATE_IN_USE;
	else
		return ready_noted(mapping, task_call, call, file);
	kfree(mapping);
	return status;
}

/* nv_add_mapping_context_to_file() */
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

/* --- A process names a mapping by an address of its own --- */

bool km_mapping_moves(const struct nv_abi *abi, const struct cgpu_call *call)
{
	const struct nv_layout_NVOS56_PARAMETERS *at = &abi->NVOS56_PARAMETERS;
	u32 client;
	u64 from;

	if (call->nr != NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO || call->bytes != at->bytes)
		return false;
	client = get32(call->top, at->hClient);
	from = get64(call->top, at->pOldCpuAddress);
	if (mapping_move(client, get32(call->top, at->hMemory), from, get64(call->top, at->pNewCpuAddress)))
		put32(call->top, at->status, NV_OK);
	/* The driver has one at that place, which has another address for the process. */
	else if (mapping_of_window(client, from & PAGE_MASK))
		put32(call->top, at->status, NV_ERR_OBJECT_NOT_FOUND);
	else
		return false;
	return true;
}

struct mapping *km_mapping_unmaps(const struct nv_abi *abi, const struct cgpu_call *call, u64 *address)
{
	const struct nv_layout_NVOS34_PARAMETERS *at = &abi->NVOS34_PARAMETERS;
	struct mapping *mapping;

	if (call->nr != NV_ESC_RM_UNMAP_MEMORY || call->bytes != at->bytes)
		return NULL;
	*address = get64(call->top, at->pLinearAddress);
	mapping = mapping_get_by_address(get32(call->top, at->hClient), get32(call->top, at->hMemory), *address);
	if (mapping)
		put64(call->top, at->pLinearAddress, mapping->window);
	return mapping;
}

void km_mapping_unmapped(const struct nv_abi *abi, const struct cgpu_call *call, struct mapping *mapping, u64 address)
{
	if (!mapping)
		return;
	put64(call->top, abi->NVOS34_PARAMETERS.pLinearAddress, address);
	mapping_put(mapping);
}

KM_PROBE_AROUND(map_ready, "nvidia", "nv_add_mapping_context_to_file", ready_mapping, ready_wants);
