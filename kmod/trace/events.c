// SPDX-License-Identifier: Apache-2.0
/* What a system call did with the driver's files, as lines. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/close_range.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "recorder.h"

/* The kernel's own errors of calls that a signal has interrupted (include/linux/errno.h). */
#define RESTART_FIRST 512
#define RESTART_LAST 516

static bool begin_ioctl(struct recorder *r, struct task *task, const struct open_file *file)
{
	struct pending *pending = &task->pending;
	struct capture *c = pending->capture;
	const struct nv_form *form;
	unsigned int i;

	if (!c)
		c = pending->capture = malloc(sizeof(*c));
	if (!c)
		return false;
	pending->file_number = file->number;
	capture_read(c, &r->version, task, file->node.kind, pending->args[1], pending->args[2]);
	form = c->form;
	/* Before the line of this call: a file that is found gets a line of its own. */
	for (i = 0; form && i < form->count; i++) {
		if (form->fields[i].kind == NV_KIND_FD)
			event_file(r, task, (int)field_value(c->top, &form->fields[i]));
	}
	return true;
}

/* The kernel answers these for every file, and drivers never see them (fs/ioctl.c). */
static bool is_of_all_files(uint64_t command)
{
	uint32_t number = (uint32_t)command;

	return number == FIOCLEX || number == FIONCLEX || number == FIONBIO || number == FIOASYNC;
}

bool event_begin(struct recorder *r, struct task *task)
{
	struct pending *pending = &task->pending;
	const uint64_t *args = pending->args;
	struct open_file *file;

	pending->start = clock_now();
	switch (pending->op) {
	case OP_OPEN:
	case OP_OPENAT:
	case OP_CLOSE_RANGE:
		return true;
	case OP_CLOSE:
	case OP_DUP:
		file = event_file(r, task, (int)args[0]);
		pending->file_number = file ? file->number : 0;
		return file != NULL;
	case OP_DUP2:
		return event_file(r, task, (int)args[0]) || slot_find(task->table, (int)args[1]);
	case OP_FCNTL:
		return (args[1] == F_DUPFD || args[1] == F_DUPFD_CLOEXEC) && event_file(r, task, (int)args[0]);
	case OP_MMAP:
		return !(args[3] & MAP_ANONYMOUS) && event_file(r, task, (int)args[4]);
	case OP_MUNMAP:
		return mapping_find(&r->files, task->process, args[0], args[1]) != NULL;
	case OP_IOCTL:
		file = is_of_all_files(args[1]) ? NULL : event_file(r, task, (int)args[0]);
		return file && begin_ioctl(r, task, file);
	case OP_UNSHARE:
		return (args[0] & CLONE_FILES) != 0;
	default:
		return false;
	}
}

/* Only below the folder of the driver's nodes, so that no other name is ever written. */
static struct node failed_node(const struct recorder *r, const struct task *task)
{
	const struct pending *pending = &task->pending;
	uint64_t at = pending->args[pending->op == OP_OPEN ? 0 : 1];
	size_t length = strlen(r->options->dev);
	struct node none = { NODE_NONE, 0 };
	char path[4096];

	if (!memory_text(task, at, path, sizeof(path)))
		return none;
	if (strncmp(path, r->options->dev, length) != 0 || path[length] != '/')
		return none;
	return node_of_name(path + length + 1);
}

static void end_open(struct recorder *r, struct task *task, int64_t result)
{
	struct node node = result >= 0 ? nodes_identify(&r->nodes, task->tid, (int)result) : failed_node(r, task);
	struct open_file *file = NULL;
	struct line *line;

	if (node.kind == NODE_NONE)
		return;
	if (result >= 0) {
		event_close(r, task, (int)result, "unseen");
		file = file_new(&r->files, &node);
		if (!file || !slot_add(task->table, (int)result, file))
			return;
		line = event_line(r, task, "open", (int)result, file);
	} else {
		line = line_begin(&r->output, task, "open");
	}
	line_node(line, &node);
	line_signed(line, "result", result);
	line_end(&r->output);
}

static void end_dup(struct recorder *r, struct task *task, int64_t result)
{
	int from = (int)task->pending.args[0], to = (int)result;
	struct slot *slot = slot_find(task->table, from);
	struct open_file *file = slot ? slot->file : NULL;
	struct line *line;

	if (result < 0 || from == to)
		return;
	/* Before the old descriptor goes: it may be of the same file. */
	if (file)
		file->refs++;
	event_close(r, task, to, "dup");
	if (!file)
		return;
	file->refs--;
	if (!slot_add(task->table, to, file))
		return;
	line = event_line(r, task, "dup", from, file);
	line_signed(line, "result", result);
	line_end(&r->output);
}

/* Addresses of mappings are never written. */
static void end_mmap(struct recorder *r, struct task *task, int64_t result)
{
	const uint64_t *args = task->pending.args;
	struct slot *slot = slot_find(task->table, (int)args[4]);
	bool failed = result < 0 && result > -4096;
	uint64_t start = task->pending.arch == AUDIT_ARCH_I386 ? (uint32_t)result : (uint64_t)result;
	struct mapping *mapping = NULL;
	struct line *line;

	if (!slot)
		return;
	if (!failed)
		mapping = mapping_add(&r->files, task->process, start, args[1], slot->file);
	line = event_line(r, task, "mmap", (int)args[4], slot->file);
	line_number(line, "length", args[1]);
	line_number(line, "prot", args[2]);
	line_number(line, "flags", args[3]);
	if (args[5])
		line_true(line, "offset");
	if (mapping)
		line_number(line, "map", mapping->number);
	line_signed(line, "result", failed ? result : 0);
	line_end(&r->output);
}

static void end_munmap(struct recorder *r, struct task *task)
{
	const uint64_t *args = task->pending.args;
	struct mapping *mapping;

	while ((mapping = mapping_find(&r->files, task->process, args[0], args[1])))
		event_unmap(r, task, mapping, "munmap");
}

static void end_close_range(struct recorder *r, struct task *task)
{
	const uint64_t *args = task->pending.args;
	struct slot *slot, *next;

	if (args[2] & CLOSE_RANGE_UNSHARE)
		task->table = table_own(task->table);
	for (slot = task->table->slots; slot && !(args[2] & CLOSE_RANGE_CLOEXEC); slot = next) {
		next = slot->next;
		if ((uint32_t)slot->fd >= (uint32_t)args[0] && (uint32_t)slot->fd <= (uint32_t)args[1])
			event_close(r, task, slot->fd, "close");
	}
}

/* The number can be another file's already: another thread's open can end before this close is seen to. */
static void end_close(struct recorder *r, struct task *task)
{
	int fd = (int)task->pending.args[0];
	const struct slot *slot = slot_find(task->table, fd);

	if (slot && slot->file->number == task->pending.file_number)
		event_close(r, task, fd, "close");
}

/* Of interrupted calls only those of the driver are of interest: the others had no effect. */
static bool is_restart(int64_t result)
{
	return result <= -RESTART_FIRST && result >= -RESTART_LAST;
}

void event_end(struct recorder *r, struct task *task, int64_t result)
{
	enum op op = task->pending.op;

	if (is_restart(result))
		result = -EINTR;
	if (op == OP_IOCTL)
		ioctl_event(r, task, &result);
	else if (op == OP_OPEN || op == OP_OPENAT)
		end_open(r, task, result);
	else if (op == OP_DUP || op == OP_DUP2 || op == OP_FCNTL)
		end_dup(r, task, result);
	else if (op == OP_MMAP)
		end_mmap(r, task, result);
	else if (op == OP_CLOSE && result != -EBADF)
		end_close(r, task);
	else if (op == OP_CLOSE_RANGE && result == 0)
		end_close_range(r, task);
	else if (op == OP_MUNMAP && result == 0)
		end_munmap(r, task);
	else if (op == OP_UNSHARE && result == 0)
		task->table = table_own(task->table);
	task->pending.op = OP_NONE;
}

void event_cut(struct recorder *r, struct task *task)
{
	if (task->pending.op == OP_IOCTL)
		ioctl_event(r, task, NULL);
	task->pending.op = OP_NONE;
}
