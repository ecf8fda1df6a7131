// SPDX-License-Identifier: Apache-2.0
/*
 * A card's address spaces that UVM knows: memory mapped by UVM, and for the rest the process's own memory at the same
 * addresses (semaphore pools and managed memory, which the process maps at the card's addresses). Nothing is mapped by
 * NV_ESC_RM_MAP_MEMORY_DMA, which libcuda (535.261.03, 550.163.01) does not use.
 */
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
