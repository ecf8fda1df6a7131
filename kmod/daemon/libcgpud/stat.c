// SPDX-License-Identifier: Apache-2.0
/* cgpud's part of the root's entry `stat`: lengths of its queues, and durations of calls. */
#define _GNU_SOURCE
#include "engine.h"
#include "lib/text.h"

static void add_word(struct core_text *out, const char *key, u64 value)
{
	core_text_string(out, " ");
	core_text_string(out, key);
	core_text_string(out, "=");
	core_text_number(out, value);
}

/* Workers write these values under locks that the reader does not take: no call waits for a reader. */
static u32 length_now(const u32 *length)
{
	return __atomic_load_n(length, __ATOMIC_RELAXED);
}

static void add_queues(struct cgpud *d, struct core_text *out)
{
	add_word(out, "calls_now", length_now(&d->listeners.busy));
	add_word(out, "workers", atomic_load(&d->started));
	add_word(out, "workers_max", WORKERS_MAX);
	add_word(out, "listeners_held", length_now(&d->listeners.held));
	add_word(out, "answers_kept", atomic_load(&d->in_flight.kept));
	add_word(out, "timeslices_left", atomic_load(&d->timeslices.left));
}

static u64 counted(const u64 *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static void add_latency(struct core_text *out, const char *name, const struct cgpu_latency *latency)
{
	u32 i;

	core_text_string(out, " ");
	core_text_string(out, name);
	core_text_string(out, "_ns=");
	core_text_number(out, counted(&latency->ns));
	core_text_string(out, " ");
	core_text_string(out, name);
	for (i = 0; i < CGPU_LATENCY_BUCKETS; i++) {
		core_text_string(out, i ? "," : "_times=");
		core_text_number(out, counted(&latency->calls[i]));
	}
}

static int is_root_stat(struct cgpud *d, const struct cgpu_node *node)
{
	struct cgpu_node stat;

	return node->gpu < 0 && cgpu_tree_lookup(&d->core, "stat", &stat) == 0 && node->kind == stat.kind;
}

long cgpud_tree_read(struct cgpud *d, const struct cgpu_node *node, char *text, size_t bytes)
{
	long length = cgpu_tree_read(&d->core, node, text, bytes);
	struct core_text out;
	u32 i;

	if (length <= 0 || !is_root_stat(d, node))
		return length;
	core_text_start(&out, text, bytes);
	out.length = (size_t)length - 1; /* without the newline */
	add_queues(d, &out);
	for (i = 0; i < CGPU_OUTCOMES; i++)
		add_latency(&out, cgpu_outcome_name(i), &d->in_flight.latency[i]);
	core_text_string(&out, "\n");
	return out.full ? -EINVAL : (long)out.length;
}
