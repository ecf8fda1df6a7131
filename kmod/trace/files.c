// SPDX-License-Identifier: Apache-2.0
/* Open files of the driver, by number, and what leads to them: descriptors and mappings. */
#include <stdlib.h>

#include "recorder.h"

struct table *table_new(void)
{
	struct table *table = calloc(1, sizeof(*table));

	if (table)
		table->refs = 1;
	return table;
}

struct table *table_copy(const struct table *from)
{
	struct table *table = table_new();
	const struct slot *slot;

	for (slot = table ? from->slots : NULL; slot; slot = slot->next) {
		if (!slot_add(table, slot->fd, slot->file))
			return table;
	}
	return table;
}

struct table *table_own(struct table *table)
{
	struct table *copy = table->refs > 1 ? table_copy(table) : NULL;

	if (!copy)
		return table;
	table->refs--;
	return copy;
}

struct slot *slot_find(const struct table *table, int fd)
{
	struct slot *slot = table->slots;

	while (slot && slot->fd != fd)
		slot = slot->next;
	return slot;
}

struct slot *slot_add(struct table *table, int fd, struct open_file *file)
{
	struct slot *slot = calloc(1, sizeof(*slot));

	if (!slot)
		return NULL;
	slot->fd = fd;
	slot->file = file;
	/* Before the old descriptor goes: it may be the last one of the same file. */
	file->refs++;
	slot_drop(table, fd);
	slot->next = table->slots;
	table->slots = slot;
	return slot;
}

struct open_file *file_new(struct files *files, const struct node *node)
{
	struct open_file *file = calloc(1, sizeof(*file));

	if (!file)
		return NULL;
	file->number = ++files->last_file;
	file->node = *node;
	return file;
}

/* Whether that was the last reference. */
static bool file_put(struct open_file *file)
{
	if (--file->refs > 0)
		return false;
	free(file);
	return true;
}

bool slot_drop(struct table *table, int fd)
{
	struct slot **at = &table->slots, *slot;
	struct open_file *file;

	while (*at && (*at)->fd != fd)
		at = &(*at)->next;
	slot = *at;
	if (!slot)
		return false;
	*at = slot->next;
	file = slot->file;
	free(slot);
	return file_put(file);
}

struct mapping *mapping_add(struct files *files, pid_t process, uint64_t start, uint64_t length, struct open_file *file)
{
	struct mapping *mapping = calloc(1, sizeof(*mapping));

	if (!mapping)
		return NULL;
	*mapping = (struct mapping){ .next = files->mappings,
		.process = process,
		.number = ++files->last_mapping,
		.start = start,
		.length = length,
		.file = file };
	file->refs++;
	files->mappings = mapping;
	return mapping;
}

struct mapping *mapping_find(struct files *files, pid_t process, uint64_t start, uint64_t length)
{
	struct mapping *mapping = files->mappings;

	while (mapping) {
		bool apart = start >= mapping->start ? start - mapping->start >= mapping->length :
						       mapping->start - start >= length;

		if (mapping->process == process && !apart)
			return mapping;
		mapping = mapping->next;
	}
	return NULL;
}

bool mapping_drop(struct files *files, struct mapping *mapping)
{
	struct mapping **at = &files->mappings;
	struct open_file *file = mapping->file;

	while (*at && *at != mapping)
		at = &(*at)->next;
	if (*at)
		*at = mapping->next;
	free(mapping);
	return file_put(file);
}
