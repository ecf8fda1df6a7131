// SPDX-License-Identifier: Apache-2.0
/* Times at which the driver's samples are read, and readings that are whole. */
#include "bench.h"
#include "cgpu_round.h"

#define MS 1000000ull
#define SOON 125

/* Looks until a time in ms, each when the one before said. How many were whole. */
static u32 looks_until(struct cgpu_sampling *sampling, enum cgpu_samples_kind look, u64 *ms, u64 end)
{
	u32 whole = 0;

	for (; *ms < end; *ms += sampling->after / MS)
		whole += cgpu_sampling_add(sampling, look, *ms * MS) == CGPU_SAMPLES_WHOLE;
	return whole;
}

TEST(one_in_a_second)
{
	struct cgpu_sampling sampling = { 0 };
	u64 ms = 5000;

	/* The first sample's start is not known. */
	CHECK_EQ(cgpu_sampling_add(&sampling, CGPU_SAMPLES_PART, ms * MS), CGPU_SAMPLES_PART);
	CHECK_EQ(sampling.after, 1000 * MS);
	ms += 1000;
	CHECK_EQ(looks_until(&sampling, CGPU_SAMPLES_WHOLE, &ms, 16000), 10);
	CHECK_EQ(ms, 16000);
}

/* After lost samples, readings come sooner for some time; a second of them makes a whole one. */
TEST(sooner_where_some_were_lost)
{
	struct cgpu_sampling sampling = { 0 };
	u64 ms = 5000;

	CHECK_EQ(cgpu_sampling_add(&sampling, CGPU_SAMPLES_LOST, ms * MS), CGPU_SAMPLES_LOST);
	CHECK_EQ(sampling.after, SOON * MS);
	ms += SOON;
	CHECK_EQ(looks_until(&sampling, CGPU_SAMPLES_WHOLE, &ms, 14990), 9);
	CHECK_EQ(looks_until(&sampling, CGPU_SAMPLES_WHOLE, &ms, 15100), 1);
	CHECK_EQ(sampling.after, 1000 * MS);
}

/* A second of which something is missing is no whole one, in whichever of its looks that was. */
TEST(a_second_with_a_loss_is_lost)
{
	u32 at;

	for (at = 1; at <= 8; at++) {
		struct cgpu_sampling sampling = { 0 };
		u64 ms = 5000;
		u32 n;

		cgpu_sampling_add(&sampling, CGPU_SAMPLES_LOST, ms * MS);
		for (n = 1; n <= 8; n++) {
			enum cgpu_samples_kind look = n == at ? CGPU_SAMPLES_LOST : CGPU_SAMPLES_WHOLE;

			ms += SOON;
			look = cgpu_sampling_add(&sampling, look, ms * MS);
			CHECK_EQ(look, n == 8 ? CGPU_SAMPLES_LOST : CGPU_SAMPLES_PART);
		}
	}
}
