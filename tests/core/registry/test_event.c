// SPDX-License-Identifier: Apache-2.0
/* Lines for the event log: one for each slice that starts or ends, with what it had. */
#include "slices.h"

static void check_event(const struct bench *bench, const char *expected)
{
	if (strcmp(bench->event, expected))
		fprintf(stderr, "event: %s\n", bench->event);
	CHECK(strcmp(bench->event, expected) == 0);
}

TEST_ON(a_slice_that_starts_is_one_line, bench_new("580.142"))
{
	/* A refused line makes no event. */
	CHECK_EQ(bench_ctl(bench, "create id=web pid=1 gpu=7:1048576"), -ENOENT);
	CHECK_EQ(bench_ctl(bench, "destroy id=web"), 0);
	CHECK_EQ(bench->events, 0);
	CHECK_EQ(bench_ctl(bench, "create id=web pid=1 gpu=1:1048576:2:1"), 0);
	CHECK_EQ(bench->events, 1);
	check_event(bench, "event=started gpu=1 uuid=GPU-1 id=web memsize=1048576 weight=2 highprio=1");
	CHECK_EQ(bench_ctl(bench, "create id=two pid=2 gpu=0:65536 gpu=1:65536"), 0);
	CHECK_EQ(bench->events, 3);
}

TEST_ON(the_end_tells_peak_and_refusals, started("580.142", &caller))
{
	u32 events = bench->events;

	CHECK_EQ(take(bench, &caller, 1, 5 * MIB), NV_OK);
	CHECK_EQ(bench_rm_free(bench, &caller, FIRST, 1), NV_OK);
	CHECK_EQ(take(bench, &caller, 2, 2 * MIB), NV_OK);
	CHECK_EQ(take(bench, &caller, 3, SLICE), NV_ERR_NO_MEMORY);
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	CHECK_EQ(bench->events, events + 1);
	check_event(bench,
		"event=ended gpu=0 uuid=GPU-0 id=a memsize=6336544768 weight=1 highprio=0 used=0 charged=0 peak=5242880 "
		"usage=0 throttled=0 refused_limit=1 refused_card=0 refused_unaccounted=0 refused_class=0 refused_control=0 "
		"refused_client=0 refused_records=0 refused_call=0");
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	CHECK_EQ(bench->events, events + 1);
}

TEST_ON(the_longest_line_fits, bench_new("580.142"))
{
	char line[256], id[CGPU_ID_BYTES];

	memset(id, 'x', sizeof(id) - 1);
	id[sizeof(id) - 1] = 0;
	snprintf(line, sizeof(line), "create id=%s pid=1 gpu=0:6336544768:20:1", id);
	CHECK_EQ(bench_ctl(bench, line), 0);
	memset(&bench->core.state->stat.gpu[0].instance[0], 0xff, sizeof(bench->core.state->stat.gpu[0].instance[0]));
	memset(bench->core.state->stat.container, 0xff, sizeof(bench->core.state->stat.container));
	snprintf(line, sizeof(line), "destroy id=%s", id);
	CHECK_EQ(bench_ctl(bench, line), 0);
	CHECK_EQ(bench->events, 2);
	CHECK(strstr(bench->event, " refused_call=18446744073709551615") != NULL);
}
