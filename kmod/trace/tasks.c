// SPDX-License-Identifier: Apache-2.0
/* Processes and threads under observation, each with a small number of its own. */
#define _GNU_SOURCE
#include <linux/kcmp.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "recorder.h"

struct task *task_find(struct recorder *r, pid_t tid)
{
	struct task *task = r->tasks;

	while (task && task->tid != tid)
		task = task->next;
	return task;
}

static struct task *of_process(struct recorder *r, pid_t process)
{
	struct task *task = r->tasks;

	while (task && task->process != process)
		task = task->next;
	return task;
}

struct relatives {
	pid_t process, parent;
};

/* The name, which comes first in this file, is escaped: a process cannot forge a line. */
static bool relatives_of(pid_t tid, struct relatives *found)
{
	char path[48], line[256];
	int process = 0, parent = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "Tgid: %d", &process) == 0)
			(void)sscanf(line, "PPid: %d", &parent);
	}
	fclose(file);
	*found = (struct relatives){ process, parent };
	return process > 0;
}

static struct table *inherit(pid_t tid, bool thread, const struct task *from)
{
	long differs;

	if (!from)
		return table_new();
	differs = syscall(SYS_kcmp, tid, from->tid, KCMP_FILES, 0, 0);
	/* Where that cannot be told, threads share. */
	if (differs > 0 || (differs < 0 && !thread))
		return table_copy(from->table);
	from->table->refs++;
	return from->table;
}

static void tell(struct recorder *r, const struct task *from, const struct task *task, bool thread)
{
	struct line *line = line_begin(&r->output, from, thread ? "thread" : "fork");

	line_number(line, "child", task->process_number);
	line_number(line, "child_tid", task->number);
	line_end(&r->output);
}

struct task *task_add(struct recorder *r, pid_t tid, const struct task *from)
{
	struct relatives about = { tid, 0 };
	struct task *task = calloc(1, sizeof(*task));
	bool thread;

	if (!task)
		return NULL;
	relatives_of(tid, &about);
	thread = about.process != tid;
	if (!from)
		from = of_process(r, thread ? about.process : about.parent);
	task->tid = tid;
	task->process = about.process;
	task->table = inherit(tid, thread, from);
	if (!task->table) {
		free(task);
		return NULL;
	}
	task->number = ++r->last_task;
	task->process_number = thread && from ? from->process_number : ++r->last_process;
	task->next = r->tasks;
	r->tasks = task;
	if (from)
		tell(r, from, task, thread);
	return task;
}

static void let_go_of_table(struct recorder *r, struct task *task)
{
	struct table *table = task->table;

	task->table = NULL;
	if (--table->refs > 0)
		return;
	while (table->slots) {
		struct task who = *task;

		who.table = table;
		event_close(r, &who, table->slots->fd, "exit");
	}
	free(table);
}

static void unmap_all(struct recorder *r, const struct task *task, const char *by)
{
	struct mapping *mapping;

	while ((mapping = mapping_find(&r->files, task->process, 0, UINT64_MAX)))
		event_unmap(r, task, mapping, by);
}

static void unlink_task(struct recorder *r, struct task *task)
{
	struct task **at = &r->tasks;

	while (*at && *at != task)
		at = &(*at)->next;
	if (*at)
		*at = task->next;
	free(task->pending.capture);
	free(task);
}

void task_gone(struct recorder *r, struct task *task, int status)
{
	struct line *line;

	event_cut(r, task);
	let_go_of_table(r, task);
	if (task->tid == task->process) {
		unmap_all(r, task, "exit");
		memory_forget(task->process);
		line = line_begin(&r->output, task, "exit");
		if (WIFSIGNALED(status))
			line_number(line, "signal", (uint64_t)WTERMSIG(status));
		else
			line_number(line, "status", (uint64_t)WEXITSTATUS(status));
		line_end(&r->output);
	}
	if (task->tid == r->root)
		r->root_status = status;
	unlink_task(r, task);
}

/* The kernel has ended the other threads, and the one that called goes on under the process's own number. */
static void only_leader(struct recorder *r, struct task *leader)
{
	struct task *task = r->tasks, *next;

	for (; task; task = next) {
		next = task->next;
		if (task->process != leader->process || task == leader)
			continue;
		let_go_of_table(r, task);
		unlink_task(r, task);
	}
}

void task_exec(struct recorder *r, pid_t process)
{
	struct task *task = task_find(r, process);
	struct slot *slot, *next;

	if (!task)
		return;
	only_leader(r, task);
	memory_forget(process);
	task->pending.op = OP_NONE;
	line_begin(&r->output, task, "exec");
	line_end(&r->output);
	task->table = table_own(task->table);
	for (slot = task->table->slots; slot; slot = next) {
		next = slot->next;
		if (nodes_identify(&r->nodes, process, slot->fd).kind == NODE_NONE)
			event_close(r, task, slot->fd, "exec");
	}
	unmap_all(r, task, "exec");
}
