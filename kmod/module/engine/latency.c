// SPDX-License-Identifier: GPL-2.0-only
/*
 * How long calls of containers take, and how many are under way: what this module adds to the tree's entry `stat` of the
 * root. Counted here and not in the core's state, so that it goes over to another core as it is. Each processor counts for
 * itself: a call takes no lock for it, and waits for no reader.
 */
#include <linux/kernel.h>
#include <linux/percpu.h>

#include "engine/engine.h"

struct latency_counts {
	struct cgpu_latency of[CGPU_OUTCOMES];
	long inside; /* calls that began here, less those that ended here: only the sum over all processors means something */
};

static DEFINE_PER_CPU(struct latency_counts, latency_counts);

void km_latency_enter(void)
{
	this_cpu_inc(latency_counts.inside);
}

void km_latency_leave(void)
{
	this_cpu_dec(latency_counts.inside);
}

void km_latency_add(enum cgpu_outcome outcome, u64 ns)
{
	this_cpu_add(latency_counts.of[outcome].ns, ns);
	this_cpu_inc(latency_counts.of[outcome].calls[cgpu_latency_bucket(ns)]);
}

long km_latency_inside(void)
{
	long calls = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		calls += READ_ONCE(per_cpu(latency_counts.inside, cpu));
	/* Calls that change processors between two of these readings. */
	return max(calls, 0L);
}

static void latency_sum(enum cgpu_outcome outcome, struct cgpu_latency *sum)
{
	u32 bucket;
	int cpu;

	memset(sum, 0, sizeof(*sum));
	for_each_possible_cpu(cpu) {
		const struct cgpu_latency *one = &per_cpu(latency_counts.of[outcome], cpu);

		sum->ns += READ_ONCE(one->ns);
		for (bucket = 0; bucket < CGPU_LATENCY_BUCKETS; bucket++)
			sum->calls[bucket] += READ_ONCE(one->calls[bucket]);
	}
}

long km_latency_append(char *text, long length, size_t room)
{
	enum cgpu_outcome outcome;
	struct cgpu_latency sum;
	size_t at = (size_t)length - 1; /* without the newline */
	u32 bucket;

	at += scnprintf(text + at, room - at, " calls_now=%ld", km_latency_inside());
	for (outcome = 0; outcome < CGPU_OUTCOMES; outcome++) {
		const char *name = cgpu_outcome_name(outcome);

		latency_sum(outcome, &sum);
		at += scnprintf(text + at, room - at, " %s_ns=%llu %s_times=", name, sum.ns, name);
		for (bucket = 0; bucket < CGPU_LATENCY_BUCKETS; bucket++)
			at += scnprintf(text + at, room - at, "%s%llu", bucket ? "," : "", sum.calls[bucket]);
	}
	return (long)(at + scnprintf(text + at, room - at, "\n"));
}
