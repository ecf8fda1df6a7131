// SPDX-License-Identifier: GPL-2.0
/* Finds mappings by their files, and by what ends them. */
#include <linux/hashtable.h>
#include <linux/slab.h>

#include "mappings/mappings.h"

/* A container can fill it as far as its memory limit goes, and mappings of all containers are searched here. */
#define BUCKETS_BITS 14

static DEFINE_HASHTABLE(table_by_file, BUCKETS_BITS);
static DEFINE_HASHTABLE(table_by_key, BUCKETS_BITS);
static DEFINE_HASHTABLE(table_by_client_file, BUCKETS_BITS);
static DEFINE_SPINLOCK(table_lock);
static atomic_t table_count;

static struct mapping *find(const struct file *file)
{
	struct mapping *mapping;

	hash_for_each_possible_rcu(table_by_file, mapping, by_file, (unsigned long)file, lockdep_is_held(&table_lock)) {
		if (mapping->file == file)
			return mapping;
	}
	return NULL;
}

static u64 page_of(const struct mapping *mapping)
{
	return mapping->window & PAGE_MASK;
}

static struct mapping *find_by_key(u64 key, u64 window)
{
	struct mapping *mapping;

	hash_for_each_possible_rcu(table_by_key, mapping, by_key, key, lockdep_is_held(&table_lock)) {
		if (mapping->key == key && (window == MAPPING_ANY || page_of(mapping) == window))
			return mapping;
	}
	return NULL;
}

/* The oldest comes last. */
static struct mapping *find_by_window(u64 client, u64 window, const struct mapping *rather, bool *alike)
{
	struct mapping *mapping, *found = NULL;

	*alike = true;
	hash_for_each_possible(table_by_key, mapping, by_key, client)
	{
		if (mapping->key != client || page_of(mapping) != window)
			continue;
		if (found && (found->memory != mapping->memory || found->bytes != mapping->bytes))
			*alike = false;
		if (!found || found != rather)
			found = mapping;
	}
	return found;
}

static struct mapping *find_by_address(u64 client, u32 memory, u64 address)
{
	struct mapping *mapping;

	hash_for_each_possible(table_by_key, mapping, by_key, client)
	{
		if (mapping->key == client && mapping->memory == memory && mapping->address == address)
			return mapping;
	}
	return NULL;
}

static struct mapping *find_by_client_file(const void *client_file)
{
	struct mapping *mapping;

	hash_for_each_possible(table_by_client_file, mapping, by_client_file, (unsigned long)client_file)
	{
		if (mapping->client_file == client_file)
			return mapping;
	}
	return NULL;
}

static bool file_is_known(const struct file *file, bool of_card)
{
	const struct mapping *mapping;
	bool known;

	if (!atomic_read(&table_count))
		return false;
	rcu_read_lock();
	mapping = find(file);
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
	known = find_by_key(key, MAPPING_ANY) != NULL;
	rcu_read_unlock();
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
	return count_user(find(file));
}

struct mapping *mapping_get_by_key(u64 key, u64 window)
{
	spin_lock(&table_lock);
	return count_user(find_by_key(key, window));
}

struct mapping *mapping_get_by_window(u64 client, u64 window, const struct mapping *rather, bool *alike)
{
	spin_lock(&table_lock);
	return count_user(find_by_window(client, window, rather, alike));
}

struct mapping *mapping_get_by_address(u64 client, u32 memory, u64 address)
{
	spin_lock(&table_lock);
	return count_user(find_by_address(client, memory, address));
}

struct mapping *mapping_get_by_client_file(const void *client_file)
{
	spin_lock(&table_lock);
	return count_user(find_by_client_file(client_file));
}

void mapping_put(struct mapping *mapping)
{
	if (refcount_dec_and_test(&mapping->users))
		kfree_rcu(mapping, rcu);
}

bool mapping_add(struct mapping *mapping)
{
	bool known;

	spin_lock(&table_lock);
	known = find(mapping->file) != NULL;
	if (!known) {
		hash_add_rcu(table_by_file, &mapping->by_file, (unsigned long)mapping->file);
		hash_add_rcu(table_by_key, &mapping->by_key, mapping->key);
		hash_add(table_by_client_file, &mapping->by_client_file, (unsigned long)mapping->client_file);
		atomic_inc(&table_count);
	}
	spin_unlock(&table_lock);
	return !known;
}

static void unlink_from_ends(struct mapping *mapping)
{
	lockdep_assert_held(&table_lock);
	if (!hash_hashed(&mapping->by_client_file))
		return;
	hash_del_rcu(&mapping->by_key);
	hash_del(&mapping->by_client_file);
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

void km_mappings_clear(void)
{
	struct mapping *mapping;
	struct hlist_node *next;
	u32 bucket;

	hash_for_each_safe(table_by_file, bucket, next, mapping, by_file) mapping_remove(mapping);
}
