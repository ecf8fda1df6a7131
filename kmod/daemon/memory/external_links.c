// SPDX-License-Identifier: Apache-2.0
/* Chains of UVM's mappings: by start address, and by file. */
#include "external_links.h"
#include "lib/hash.h"

static u32 *head_of(struct external *x, u32 file, u64 start)
{
	return &x->hash[core_hash(x->key, (u32)start, (u32)(start >> 32) ^ file << 20) % EXTERNAL_BUCKETS];
}

u32 external_bucket(const struct external *x, u32 file, u64 start)
{
	return *head_of((struct external *)(uintptr_t)x, file, start);
}

static void link_in(struct external *x, u32 at)
{
	struct external_map *map = &x->store->map[at];
	u32 *head = head_of(x, map->file, map->start);

	map->next = *head;
	*head = at;
	map->before = EXTERNAL_NONE;
	map->after = x->first[map->file];
	if (map->after != EXTERNAL_NONE)
		x->store->map[map->after].before = at;
	x->first[map->file] = at;
	if (map->serial > x->latest)
		x->latest = map->serial;
}

void external_link(struct external *x, const struct cgpu_reference *hold, const struct external_map *map)
{
	struct external_map *place = &x->store->map[hold->object];

	*place = *map;
	place->serial = 0;
	if (x->store->used <= hold->object)
		x->store->used = hold->object + 1;
	atomic_thread_fence(memory_order_release);
	place->serial = hold->serial;
	link_in(x, hold->object);
}

void external_unlink(struct external *x, u32 at)
{
	struct external_map *map = &x->store->map[at];
	u32 *link = head_of(x, map->file, map->start);

	while (*link != EXTERNAL_NONE && *link != at)
		link = &x->store->map[*link].next;
	if (*link == at)
		*link = map->next;
	if (map->after != EXTERNAL_NONE)
		x->store->map[map->after].before = map->before;
	if (map->before != EXTERNAL_NONE)
		x->store->map[map->before].after = map->after;
	else
		x->first[map->file] = map->after;
	map->serial = 0;
}

void external_clear(struct external *x)
{
	memset(x->first, 0xff, sizeof(x->first));
	memset(x->hash, 0xff, sizeof(x->hash));
}

void external_relink(struct external *x, u32 at)
{
	link_in(x, at);
}
