// SPDX-License-Identifier: GPL-2.0-only
#include <linux/hashtable.h>
#include <linux/mm.h>
#include <linux/once.h>
#include <linux/random.h>
#include <linux/rculist.h>
#include <linux/sched.h>
#include <linux/siphash.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "mappings/table.h"

/* A container can fill it as far as its memory limit goes, and mappings of all containers are searched here. */
#define BUCKETS_BITS 14

static DEFINE_HASHTABLE(table_by_file, BUCKETS_BITS);
static struct hlist_head tables[MAPPING_WAYS][1 << BUCKETS_BITS];
/* A container chooses addresses and handles: it must not choose those of one bucket. */
static siphash_key_t table_secret;
static DEFINE_SPINLOCK(table_lock);
static atomic_t table_count;

static struct hlist_head *bucket_of(enum mapping_way way, u64 first, u64 second)
{
	return &tables[way][siphash_2u64(first, second, &table_secret) >> (64 - BUCKETS_BITS)];
}

static struct mapping *find_by_file(const struct file *file)
{
	struct mapping *mapping;

	hash_for_each_possible_rcu(table_by_file, mapping, by_file, (unsigned long)file, lockdep_is_held(&table_lock)) {
		if (mapping->file == file)
			return mapping;
	}
	return NULL;
}

static struct mapping *mapping_of_link(struct mapping_link *link, enum mapping_way way)
{
	return container_of(link - way, struct mapping, links[0]);
}

static struct mapping *find_oldest(enum mapping_way way, u64 first, u64 second)
{
	struct mapping_link *link;

	hlist_for_each_entry_rcu(link, bucket_of(way, first, second), node, lockdep_is_held(&table_lock)) {
		if (link->value[0] == first && link->value[1] == second)
			return mapping_of_link(link, way);
	}
	return NULL;
}

static struct mapping *find_newest(enum mapping_way way, u64 first, u64 second)
{
	struct mapping *oldest = find_oldest(way, first, second);

	return oldest ? mapping_of_link(list_prev_entry(&oldest->links[way], ring), way) : NULL;
}

static bool are_alike(const struct mapping *mapping, const struct mapping *other)
{
	return mapping->memory == other->memory && mapping->bytes == other->bytes;
}

static void link_mapping(struct mapping *mapping, enum mapping_way way, u64 first, u64 second)
{
	struct mapping *oldest = find_oldest(way, first, second);
	struct mapping_link *link = &mapping->links[way];

	link->value[0] = first;
	link->value[1] = second;
	INIT_LIST_HEAD(&link->ring);
	if (oldest)
		list_add_tail(&link->ring, &oldest->links[way].ring);
	else
		hlist_add_head_rcu(&link->node, bucket_of(way, first, second));
	if (way == MAPPING_BY_WINDOW && oldest && !are_alike(oldest, mapping))
		oldest->mixed = true;
}

/* The next one takes the place of the oldest before that goes: who searches without the lock, by key, finds one of them. */
static void unlink_mapping(struct mapping *mapping, enum mapping_way way)
{
	struct mapping_link *link = &mapping->links[way], *next = list_next_entry(link, ring);

	if (!hlist_unhashed(&link->node)) {
		if (next != link)
			hlist_add_behind_rcu(&next->node, &link->node);
		if (way == MAPPING_BY_WINDOW)
			mapping_of_link(next, way)->mixed = mapping->mixed;
		hlist_del_init_rcu(&link->node);
	}
	list_del(&link->ring);
}

static u64 page_of(const struct mapping *mapping)
{
	return mapping->window & PAGE_MASK;
}

static u64 name_memory(u64 client, u32 memory)
{
	return client << 32 | memory;
}

static void link_by_address(struct mapping *mapping)
{
	link_mapping(mapping, MAPPING_BY_ADDRESS, name_memory(mapping->key, mapping->memory), mapping->address);
}

static void link_to_ends(struct mapping *mapping)
{
	mapping->listed = true;
	link_mapping(mapping, MAPPING_BY_KEY, mapping->key, 0);
	if (!mapping->client_file)
		return;
	link_mapping(mapping, MAPPING_BY_WINDOW, mapping->key, page_of(mapping));
	link_by_address(mapping);
	link_mapping(mapping, MAPPING_BY_CLIENT_FILE, (uintptr_t)mapping->client_file, 0);
}

static void unlink_from_ends(struct mapping *mapping)
{
	int way;

	lockdep_assert_held(&table_lock);
	if (!mapping->listed)
		return;
	mapping->listed = false;
	for (way = 0; way < (mapping->client_file ? MAPPING_WAYS : MAPPING_BY_KEY + 1); way++)
		unlink_mapping(mapping, way);
}

static bool file_is_known(const struct file *file, bool of_card)
{
	const struct mapping *mapping;
	bool known;

	if (!atomic_read(&table_count))
		return false;
	rcu_read_lock();
	mapping = find_by_file(file);
	known = mapping && READ_ONCE(mapping->worker) != current && (!of_card || mapping->client_file);
	rcu_read_unlock();
	return known;
}

bool mapping_of_file(const struct file *file)
{
	return file_is_known(file, false);
}

bool mapping_of_card_file(const struct file *file)
{
	return file_is_known(file, true);
}

bool mapping_of_key(u64 key)
{
	bool known;

	if (!atomic_read(&table_count))
		return false;
	rcu_read_lock();
	known = find_oldest(MAPPING_BY_KEY, key, 0) != NULL;
	rcu_read_unlock();
	return known;
}

bool mapping_of_window(u64 client, u64 page)
{
	bool known;

	spin_lock(&table_lock);
	known = find_oldest(MAPPING_BY_WINDOW, client, page) != NULL;
	spin_unlock(&table_lock);
	return known;
}

static struct mapping *count_user(struct mapping *mapping)
{
	if (mapping)
		refcount_inc(&mapping->users);
	spin_unlock(&table_lock);
	return mapping;
}

struct mapping *mapping_get(const struct file *file)
{
	spin_lock(&table_lock);
	return count_user(find_by_file(file));
}

struct mapping *mapping_get_by_key(u64 key)
{
	spin_lock(&table_lock);
	return count_user(find_oldest(MAPPING_BY_KEY, key, 0));
}

struct mapping *mapping_get_by_window(u64 client, u64 page, struct mapping *rather, bool *alike)
{
	struct mapping *mapping;

	spin_lock(&table_lock);
	mapping = find_oldest(MAPPING_BY_WINDOW, client, page);
	*alike = !mapping || !mapping->mixed;
	if (mapping && rather && rather->listed && rather->key == client && page_of(rather) == page)
		mapping = rather;
	return count_user(mapping);
}

struct mapping *mapping_get_by_address(u64 client, u32 memory, u64 address)
{
	spin_lock(&table_lock);
	return count_user(find_newest(MAPPING_BY_ADDRESS, name_memory(client, memory), address));
}

struct mapping *mapping_get_by_client_file(const void *client_file)
{
	spin_lock(&table_lock);
	return count_user(find_oldest(MAPPING_BY_CLIENT_FILE, (uintptr_t)client_file, 0));
}

void mapping_put(struct mapping *mapping)
{
	if (refcount_dec_and_test(&mapping->users))
		kfree_rcu(mapping, rcu);
}

bool mapping_move(u64 client, u32 memory, u64 from, u64 to)
{
	struct mapping *mapping;

	spin_lock(&table_lock);
	mapping = find_newest(MAPPING_BY_ADDRESS, name_memory(client, memory), from);
	if (mapping) {
		unlink_mapping(mapping, MAPPING_BY_ADDRESS);
		mapping->address = to;
		link_by_address(mapping);
	}
	spin_unlock(&table_lock);
	return mapping != NULL;
}

bool mapping_add(struct mapping *mapping)
{
	bool known;

	get_random_once(&table_secret, sizeof(table_secret));
	spin_lock(&table_lock);
	known = find_by_file(mapping->file) != NULL;
	if (!known) {
		hash_add_rcu(table_by_file, &mapping->by_file, (unsigned long)mapping->file);
		link_to_ends(mapping);
		atomic_inc(&table_count);
	}
	spin_unlock(&table_lock);
	return !known;
}

void mapping_note_ended(struct mapping *mapping)
{
	spin_lock(&table_lock);
	unlink_from_ends(mapping);
	spin_unlock(&table_lock);
}

void mapping_remove(struct mapping *mapping)
{
	spin_lock(&table_lock);
	unlink_from_ends(mapping);
	hash_del_rcu(&mapping->by_file);
	atomic_dec(&table_count);
	spin_unlock(&table_lock);
	mapping_put(mapping);
}

void mapping_remove_all(void)
{
	struct mapping *mapping;
	struct hlist_node *next;
	u32 bucket;

	hash_for_each_safe(table_by_file, bucket, next, mapping, by_file) mapping_remove(mapping);
}
