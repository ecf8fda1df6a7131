/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Times of containers' calls in the engine, counted by the transports, which see their beginnings and their ends. */
#ifndef CGPU_LATENCY_H
#define CGPU_LATENCY_H

#include "cgpu_types.h"

/* Outcome of a call. docs/tree.md says when each ends. */
enum cgpu_outcome {
	CGPU_OUTCOME_EXECUTED, /* the engine has run it */
	CGPU_OUTCOME_CONTINUED, /* it goes on by itself */
	CGPU_OUTCOME_ANSWERED, /* without the driver; refused ones too */
	CGPU_OUTCOMES,
};

#define CGPU_LATENCY_BUCKETS 12u
#define CGPU_LATENCY_FIRST_NS 1000u

struct cgpu_latency {
	u64 ns; /* sum */
	u64 calls[CGPU_LATENCY_BUCKETS]; /* by cgpu_latency_bucket() */
};

/* Bucket that a call is counted in: calls of bucket n took at most 1 us * 4^n; the last one has no limit. */
static inline u32 cgpu_latency_bucket(u64 ns)
{
	u64 most = CGPU_LATENCY_FIRST_NS;
	u32 n;

	for (n = 0; n < CGPU_LATENCY_BUCKETS - 1 && ns > most; n++)
		most *= 4;
	return n;
}

/* The keys of the tree's entry `stat`: NAME_ns is the sum, NAME_times has the buckets. */
static inline const char *cgpu_outcome_name(enum cgpu_outcome outcome)
{
	return outcome == CGPU_OUTCOME_EXECUTED	  ? "executed" :
		outcome == CGPU_OUTCOME_CONTINUED ? "continued" :
						    "answered";
}

#endif
