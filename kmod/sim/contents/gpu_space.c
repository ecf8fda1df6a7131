// SPDX-License-Identifier: Apache-2.0
/*
 * A card's address spaces: memory mapped by NV_ESC_RM_MAP_MEMORY_DMA, memory mapped by UVM, and for the rest of an
 * address space that UVM knows, the process's own memory at the same addresses (semaphore pools and managed memory, which
 * the process maps at the card's addresses).
 */
#include <stdlib.h>

#include "gpu.h"
#include "uvm.h"

#define COPY_PIECE 65536u

/* Bytes at an address, up to the end of the mapping or memory that has them. */
struct piece {
	struct backing *backing; /* or of a process: */
	pid_t process;
	uint64_t offset;
	uint64_t room;
};

void gpu_maps_free(struct sim *sim, struct object *va_space)
{
	struct gpu_map *next;

	for (; va_space->maps; va_space->maps = next) {
		next = va_space->maps->next;
		backing_put(sim, va_space->maps->backing);
		free(va_space->maps);
	}
}

static bool find_map(const struct object *va_space, uint64_t address, struct piece *piece)
{
	const struct gpu_map *at = va_space->maps;

	while (at && (address < at->start || address > at->end))
		at = at->next;
	if (!at)
		return false;
	*piece = (struct piece){
		.backing = at->backing, .offset = at->offset + (address - at->start), .room = at->end - address + 1
	};
	return true;
}

static bool find_external(const struct uvm_file *file, uint64_t address, struct piece *piece)
{
	const struct uvm_range *range = file->ranges;
	const struct uvm_mapping *at;

	while (range && (address < range->start || address > range->end))
		range = range->next;
	at = range ? range->mappings : NULL;
	while (at && (address < at->start || address > at->end))
		at = at->next;
	if (!at || !at->hold->backing)
		return false;
	*piece = (struct piece){ .backing = at->hold->backing,
		.offset = at->offset + (address - at->start),
		.room = at->end - address + 1 };
	return true;
}

static const struct uvm_file *uvm_of(const struct sim *sim, const struct client *client, const struct object *va_space)
{
	const struct uvm_file *at = sim->uvm_files;

	while (at &&
		(!at->has_va_space[va_space->card] || at->va_space_client[va_space->card] != client->number ||
			at->va_space[va_space->card] != va_space->handle))
		at = at->next;
	return at;
}

static bool find(struct sim *sim, uint64_t number, uint32_t handle, uint64_t address, struct piece *piece)
{
	struct client *client = client_numbered(sim, number);
	struct object *va_space = client ? object_find(sim, client, handle) : NULL;
	const struct uvm_file *uvm;

	if (!va_space || va_space->class_id != FERMI_VASPACE_A)
		return false;
	if (find_map(va_space, address, piece))
		return true;
	uvm = uvm_of(sim, client, va_space);
	if (!uvm)
		return false;
	if (!find_external(uvm, address, piece))
		*piece = (struct piece){
			.process = client->process, .offset = address, .room = SIM_PAGE - address % SIM_PAGE
		};
	return true;
}

static bool move_piece(struct sim *sim, const struct piece *piece, uint8_t *data, bool writes)
{
	struct caller caller = { .thread = piece->process };

	if (piece->backing && writes)
		return backing_write(sim, piece->backing, piece->offset, data, piece->room);
	if (piece->backing)
		return backing_read(sim, piece->backing, piece->offset, data, piece->room);
	return writes ? user_write(&caller, piece->offset, data, piece->room) :
			user_read(&caller, piece->offset, data, piece->room);
}

static bool move(struct sim *sim, uint64_t client, uint32_t va_space, uint64_t address, uint8_t *data, uint64_t size,
	bool writes)
{
	struct piece piece;

	for (; size > 0; data += piece.room, address += piece.room, size -= piece.room) {
		if (!find(sim, client, va_space, address, &piece))
			return false;
		if (piece.room > size)
			piece.room = size;
		if (!move_piece(sim, &piece, data, writes))
			return false;
	}
	return true;
}

bool gpu_read(struct sim *sim, uint64_t client, uint32_t va_space, uint64_t address, void *out, uint64_t size)
{
	return move(sim, client, va_space, address, out, size, false);
}

bool gpu_write(struct sim *sim, uint64_t client, uint32_t va_space, uint64_t address, const void *data, uint64_t size)
{
	return move(sim, client, va_space, address, (uint8_t *)(uintptr_t)data, size, true);
}

bool gpu_copy(struct sim *sim, uint64_t client, uint32_t va_space, uint64_t from, uint64_t to, uint64_t size)
{
	static uint8_t bytes[COPY_PIECE];
	uint64_t now;

	for (; size > 0; from += now, to += now, size -= now) {
		now = size < COPY_PIECE ? size : COPY_PIECE;
		if (!gpu_read(sim, client, va_space, from, bytes, now) ||
			!gpu_write(sim, client, va_space, to, bytes, now))
			return false;
	}
	return true;
}

/* The address space that a piece of virtual memory, or the space itself, stands for. */
static struct object *va_space_of(struct sim *sim, struct object *dma)
{
	struct object *va_space =
		dma->class_id == FERMI_VASPACE_A ? dma : object_find(sim, dma->client, dma->virtual_space);

	return va_space && va_space->class_id == FERMI_VASPACE_A ? va_space : NULL;
}

static uint32_t map(struct sim *sim, struct object *va_space, struct object *memory, uint64_t address, uint64_t offset,
	uint64_t length)
{
	struct backing *backing = backing_of(sim, memory);
	struct gpu_map *made;

	if (!backing || length == 0 || offset > backing->size || length > backing->size - offset ||
		address + length < address)
		return NV_ERR_INVALID_ARGUMENT;
	made = calloc(1, sizeof(*made));
	if (!made)
		return NV_ERR_NO_MEMORY;
	*made = (struct gpu_map){ va_space->maps, address, address + length - 1, backing, offset };
	backing->refs++;
	va_space->maps = made;
	return NV_OK;
}

static uint32_t map_dma(struct call *call)
{
	const struct nv_layout_NVOS46_PARAMETERS *at = &call->sim->abi->NVOS46_PARAMETERS;
	struct object *dma, *memory, *va_space;
	uint64_t address = get64(call->data, at->dmaOffset), offset = get64(call->data, at->offset);
	struct client *client;
	uint32_t status = client_for_call(call, get32(call->data, at->hClient), &client);

	if (status != NV_OK)
		return status;
	dma = object_find(call->sim, client, get32(call->data, at->hDma));
	memory = object_find(call->sim, client, get32(call->data, at->hMemory));
	va_space = dma ? va_space_of(call->sim, dma) : NULL;
	if (!va_space || !memory)
		return NV_ERR_OBJECT_NOT_FOUND;
	if (!(get32(call->data, at->flags) &
		    NVOS46_FLAGS_DMA_OFFSET_FIXED_MASK << NVOS46_FLAGS_DMA_OFFSET_FIXED_SHIFT)) {
		address = dma->virtual_address + offset;
		put64(call->data, at->dmaOffset, address);
	}
	return map(call->sim, va_space, memory, address, offset, get64(call->data, at->length));
}

int escape_map_dma(struct call *call)
{
	const struct nv_layout_NVOS46_PARAMETERS *at = &call->sim->abi->NVOS46_PARAMETERS;

	pthread_mutex_lock(&call->sim->lock);
	put32(call->data, at->status, map_dma(call));
	pthread_mutex_unlock(&call->sim->lock);
	return 0;
}

static uint32_t unmap_dma(struct call *call)
{
	const struct nv_layout_NVOS47_PARAMETERS *at = &call->sim->abi->NVOS47_PARAMETERS;
	uint64_t address = get64(call->data, at->dmaOffset);
	struct object *dma, *va_space;
	struct gpu_map **found, *gone;
	struct client *client;
	uint32_t status = client_for_call(call, get32(call->data, at->hClient), &client);

	if (status != NV_OK)
		return status;
	dma = object_find(call->sim, client, get32(call->data, at->hDma));
	va_space = dma ? va_space_of(call->sim, dma) : NULL;
	if (!va_space)
		return NV_ERR_OBJECT_NOT_FOUND;
	found = &va_space->maps;
	while (*found && (*found)->start != address)
		found = &(*found)->next;
	if (!*found)
		return NV_ERR_INVALID_ADDRESS;
	gone = *found;
	*found = gone->next;
	backing_put(call->sim, gone->backing);
	free(gone);
	return NV_OK;
}

int escape_unmap_dma(struct call *call)
{
	const struct nv_layout_NVOS47_PARAMETERS *at = &call->sim->abi->NVOS47_PARAMETERS;

	pthread_mutex_lock(&call->sim->lock);
	put32(call->data, at->status, unmap_dma(call));
	pthread_mutex_unlock(&call->sim->lock);
	return 0;
}
