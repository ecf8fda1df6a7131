// SPDX-License-Identifier: Apache-2.0
/* Which open file a descriptor leads to, and lines about descriptors and mappings that come and go. */
#define _GNU_SOURCE
#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "recorder.h"

static bool same_node(const struct node *one, const struct node *other)
{
	return one->kind == other->kind && one->card == other->card;
}

/* The same open file under another descriptor, in whichever process. */
static struct open_file *search(struct recorder *r, const struct task *task, int fd, const struct node *node)
{
	const struct task *other;
	const struct slot *slot;

	for (other = r->tasks; other; other = other->next) {
		for (slot = other->table ? other->table->slots : NULL; slot; slot = slot->next) {
			if (same_node(&slot->file->node, node) &&
				syscall(SYS_kcmp, task->tid, other->tid, KCMP_FILE, fd, slot->fd) == 0)
				return slot->file;
		}
	}
	return NULL;
}

struct line *event_line(
	struct recorder *r, const struct task *task, const char *call, int fd, const struct open_file *file)
{
	struct line *line = line_begin(&r->output, task, call);

	line_number(line, "file", file->number);
	line_signed(line, "fd", fd);
	return line;
}

void line_node(struct line *line, const struct node *node)
{
	char name[NODE_NAME_BYTES];

	node_name(node, name);
	line_text(line, "node", name);
}

struct open_file *event_file(struct recorder *r, struct task *task, int fd)
{
	struct node node = nodes_identify(&r->nodes, task->tid, fd);
	struct slot *slot = slot_find(task->table, fd);
	struct open_file *file;
	struct line *line;

	if (slot && same_node(&slot->file->node, &node))
		return slot->file;
	if (slot)
		event_close(r, task, fd, "unseen");
	if (node.kind == NODE_NONE)
		return NULL;
	file = search(r, task, fd, &node);
	if (!file)
		file = file_new(&r->files, &node);
	if (!file || !slot_add(task->table, fd, file))
		return NULL;
	line = event_line(r, task, "found", fd, file);
	line_node(line, &node);
	line_end(&r->output);
	return file;
}

void event_close(struct recorder *r, const struct task *task, int fd, const char *by)
{
	struct slot *slot = slot_find(task->table, fd);
	struct line *line;

	if (!slot)
		return;
	line = event_line(r, task, "close", fd, slot->file);
	line_text(line, "by", by);
	if (slot_drop(task->table, fd))
		line_true(line, "last");
	line_end(&r->output);
}

void event_unmap(struct recorder *r, const struct task *task, struct mapping *mapping, const char *by)
{
	struct line *line = line_begin(&r->output, task, "munmap");

	line_number(line, "file", mapping->file->number);
	line_number(line, "map", mapping->number);
	line_number(line, "length", mapping->length);
	line_text(line, "by", by);
	if (mapping_drop(&r->files, mapping))
		line_true(line, "last");
	line_end(&r->output);
}
