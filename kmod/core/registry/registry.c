// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Lookups in the registry: names, instances, reservations, sums. */
#include "registry/registry.h"
#include "lib/text.h"

static int is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static int is_id_character(char c)
{
	if (is_hex(c) || (c >= 'g' && c <= 'z') || (c >= 'G' && c <= 'Z'))
		return 1;
	return c == '_' || c == '.' || c == '+' || c == '-';
}

size_t core_id_directory(const char *id)
{
	size_t length = core_string_length(id, CGPU_ID_BYTES);
	size_t i;

	if (length != 64)
		return length;
	for (i = 0; i < length; i++) {
		if (!is_hex(id[i]))
			return length;
	}
	return CORE_SHORT_ID;
}

int core_id_check(const char *id, size_t length)
{
	size_t i;

	if (length == 0 || length >= CGPU_ID_BYTES || id[0] == '-')
		return -EINVAL;
	for (i = 0; i < length; i++) {
		if (!is_id_character(id[i]))
			return -EINVAL;
	}
	return core_same(id, length, ".") || core_same(id, length, "..") ? -EINVAL : 0;
}

u32 core_slot_by_id(const struct cgpu_state *state, const char *id)
{
	u32 i;

	for (i = 0; i < CGPU_MAX_CONTAINERS; i++) {
		if (state->container[i].live == CORE_LIVE && core_same(id, strlen(id), state->container[i].id))
			return i;
	}
	return CORE_NONE;
}

u32 core_slot_by_directory(const struct cgpu_state *state, const char *name, size_t length)
{
	u32 i;

	for (i = 0; i < CGPU_MAX_CONTAINERS; i++) {
		const struct core_container *container = &state->container[i];

		if (container->live != CORE_LIVE || core_id_directory(container->id) != length)
			continue;
		if (memcmp(container->id, name, length) == 0)
			return i;
	}
	return CORE_NONE;
}

struct core_instance *core_instance(struct cgpu_state *state, u32 gpu, u32 number)
{
	struct core_instance *instance = &state->gpu[gpu].instance[number];

	if (instance->live != CORE_LIVE || core_container(state, instance->slot, instance->generation) == NULL)
		return NULL;
	return instance;
}

struct core_instance *core_instance_of(struct cgpu_state *state, u32 gpu, u32 slot, u32 *number)
{
	u32 i;

	if (core_gpu(state, gpu) == NULL)
		return NULL;
	for (i = 0; i < CGPU_MAX_INST; i++) {
		struct core_instance *instance = core_instance(state, gpu, i);

		if (instance == NULL || instance->slot != slot)
			continue;
		if (number)
			*number = i;
		return instance;
	}
	return NULL;
}

int core_is_passthrough(const struct cgpu_state *state, u32 gpu, u32 slot)
{
	const struct core_container *container = &state->container[slot];

	if (gpu >= CGPU_MAX_GPUS || state->gpu[gpu].live != CORE_LIVE || container->live != CORE_LIVE)
		return 0;
	return (int)(container->passthrough >> gpu & 1);
}

int core_has_gpu(struct cgpu_state *state, u32 gpu, u32 slot)
{
	return core_is_passthrough(state, gpu, slot) || core_instance_of(state, gpu, slot, NULL) != NULL;
}

u32 core_passthroughs(const struct cgpu_state *state, u32 gpu)
{
	u32 count = 0, slot;

	for (slot = 0; slot < CGPU_MAX_CONTAINERS; slot++)
		count += (u32)core_is_passthrough(state, gpu, slot);
	return count;
}

u64 core_instance_left(const struct core_instance *instance)
{
	u64 has = core_instance_has(instance);

	return has < instance->slice.memsize ? instance->slice.memsize - has : 0;
}

struct core_reservation *core_reservation(struct cgpu_state *state, u32 gpu, u32 number)
{
	struct core_reservation *reservation = &state->reservation[gpu][number];

	return reservation->live == CORE_LIVE && core_gpu(state, gpu) ? reservation : NULL;
}

struct core_reservation *core_reservation_find(struct cgpu_state *state, const char *id, size_t length, u32 *gpu)
{
	u32 i, number;

	for (i = 0; i < CGPU_MAX_GPUS; i++) {
		for (number = 0; core_gpu(state, i) && number < CGPU_MAX_INST; number++) {
			struct core_reservation *reservation = core_reservation(state, i, number);

			if (reservation == NULL || !core_same(id, length, reservation->id))
				continue;
			if (gpu)
				*gpu = i;
			return reservation;
		}
	}
	return NULL;
}

struct core_instance *core_reservation_user(
	struct cgpu_state *state, u32 gpu, const struct core_reservation *reservation)
{
	if (core_container(state, reservation->slot, reservation->generation) == NULL)
		return NULL;
	return core_instance_of(state, gpu, reservation->slot, NULL);
}

struct core_reserved core_reserved_by(struct cgpu_state *state, u32 gpu, const struct core_instance *instance)
{
	struct core_reserved sums = { 0, 0, 0 };
	u32 i;

	for (i = 0; i < CGPU_MAX_INST; i++) {
		const struct core_reservation *reservation = core_reservation(state, gpu, i);

		if (reservation == NULL || reservation->slot != instance->slot ||
			reservation->generation != instance->generation)
			continue;
		sums.places++;
		sums.weights += reservation->slice.weight;
		sums.bytes += reservation->slice.memsize;
	}
	return sums;
}

/* Sums promised to one container, with the reservations that it uses. */
static struct core_totals promised_to(struct cgpu_state *state, u32 gpu, const struct core_instance *instance)
{
	struct core_reserved reserved = core_reserved_by(state, gpu, instance);

	return (struct core_totals){
		.instances = 1,
		.places = reserved.places ? reserved.places : 1,
		.weights = reserved.weights > instance->slice.weight ? reserved.weights : instance->slice.weight,
		.promised = reserved.bytes > instance->slice.memsize ? reserved.bytes : instance->slice.memsize,
	};
}

struct core_totals core_totals(struct cgpu_state *state, u32 gpu)
{
	struct core_totals totals = { 0, 0, 0, 0 };
	u32 i;

	for (i = 0; i < CGPU_MAX_INST; i++) {
		const struct core_instance *instance = core_instance(state, gpu, i);
		const struct core_reservation *reservation = core_reservation(state, gpu, i);

		if (instance) {
			struct core_totals one = promised_to(state, gpu, instance);

			totals.instances++;
			totals.places += one.places;
			totals.weights += one.weights;
			totals.promised += one.promised;
		}
		if (reservation && core_reservation_user(state, gpu, reservation) == NULL) {
			totals.places++;
			totals.weights += reservation->slice.weight;
			totals.promised += reservation->slice.memsize;
		}
	}
	return totals;
}

u32 core_weights_of_others(struct cgpu_state *state, u32 gpu, const struct core_instance *own)
{
	return core_totals(state, gpu).weights - promised_to(state, gpu, own).weights;
}

u64 core_promised_to_others(struct cgpu_state *state, u32 gpu, const struct core_instance *own)
{
	return core_totals(state, gpu).promised - (own ? promised_to(state, gpu, own).promised : 0);
}

u64 core_unpromised(struct cgpu_state *state, u32 gpu, const struct core_instance *own)
{
	u64 taken = core_promised_to_others(state, gpu, own) + core_gpu_left(&state->gpu[gpu]);
	u64 total = state->gpu[gpu].facts.memtotal;

	if (core_passthroughs(state, gpu))
		return 0;
	return taken < total ? total - taken : 0;
}
