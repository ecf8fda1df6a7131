// SPDX-License-Identifier: Apache-2.0
/* GPUs that the driver has lost: signs of the loss, their figures, and their return. */
#include "slices.h"
#include "stats.h"

static const struct cgpu_card_view well = { .memfree = CARD_BYTES };
static const struct cgpu_card_view lost = { .memfree = CGPU_CARD_LOST };

TEST_ON(a_call_that_the_driver_answers_so_marks_its_gpu, started("580.142", &caller))
{
	u32 logged = bench->logged, events = bench->events;

	bench->driver_status = NV_ERR_GPU_IS_LOST;
	CHECK_EQ(take(bench, &caller, 1, MIB), NV_ERR_GPU_IS_LOST);
	CHECK_STAT("0/stat", "lost", 1);
	CHECK_STAT("1/stat", "lost", 0);
	CHECK_STAT("0/a/stat", "used", 0);
	CHECK_EQ(bench->logged, logged + 1);
	CHECK(strstr(bench->log, "GPU 0 (GPU-0): the driver has lost it (NV_ERR_GPU_IS_LOST)") != NULL);
	CHECK(strcmp(bench->event, "event=lost gpu=0 uuid=GPU-0") == 0);
	CHECK_EQ(take(bench, &caller, 1, MIB), NV_ERR_GPU_IS_LOST);
	CHECK_EQ(bench->logged, logged + 1);
	CHECK_EQ(bench->events, events + 1);
	bench_invariants(bench->core.state);
}

TEST_ON(so_does_a_control, started("580.142", &caller))
{
	u32 bytes = bench->core.abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS.bytes;

	memset(bench->segment[0], 0, bytes);
	bench->driver_status = NV_ERR_GPU_IS_LOST;
	CHECK_EQ(bench_control(bench, &caller, FIRST, 0xd1, NV2080_CTRL_CMD_FB_GET_INFO_V2, bytes), NV_ERR_GPU_IS_LOST);
	CHECK_STAT("0/stat", "lost", 1);
	CHECK_STAT("1/stat", "lost", 0);
}

TEST_ON(no_other_answer_does, started("580.142", &caller))
{
	bench->driver_status = NV_ERR_INVALID_ARGUMENT;
	CHECK_EQ(take(bench, &caller, 1, MIB), NV_ERR_INVALID_ARGUMENT);
	CHECK_STAT("0/stat", "lost", 0);
	/* The call did not come to the driver: its parameters are the caller's. */
	bench->driver_status = NV_ERR_GPU_IS_LOST;
	bench->driver_result = -EINTR;
	CHECK(take(bench, &caller, 1, MIB) != NV_OK);
	CHECK_STAT("0/stat", "lost", 0);
}

TEST_ON(a_calls_success_does_not_take_it_back, started("580.142", &caller))
{
	CHECK_EQ(cgpu_gpu_set_lost(&bench->core, 0, 1), 0);
	bench->driver_status = NV_OK;
	CHECK_EQ(take(bench, &caller, 1, MIB), NV_OK);
	CHECK_STAT("0/stat", "lost", 1);
}

static void check_back(const struct bench *bench, const char *log, const char *event)
{
	CHECK(strstr(bench->log, log) != NULL);
	CHECK(strcmp(bench->event, event) == 0);
}

TEST_ON(the_cards_answer_takes_it_back, bench_new("580.142"))
{
	struct cgpu_gpu_facts facts;
	u32 logged = bench->logged;

	CHECK_EQ(cgpu_gpu_reconcile(&bench->core, 1, &lost), 0);
	CHECK_STAT("1/stat", "lost", 1);
	/* The last known memory stays. */
	CHECK(bench_is(bench, "1/memfree", "15842934784\n"));
	/* The driver was not asked. */
	CHECK_EQ(cgpu_gpu_reconcile(&bench->core, 1, NULL), 0);
	CHECK_STAT("1/stat", "lost", 1);
	CHECK_EQ(cgpu_gpu_reconcile(&bench->core, 1, &well), 0);
	CHECK_STAT("1/stat", "lost", 0);
	CHECK_EQ(bench->logged, logged + 2);
	check_back(bench, "GPU 1 (GPU-1): the driver answers for it again", "event=back gpu=1 uuid=GPU-1");
	CHECK_EQ(cgpu_gpu_reconcile(&bench->core, 9, &lost), -ENOENT);
	CHECK_EQ(cgpu_gpu_set_lost(&bench->core, 9, 1), -ENOENT);
	/* So does the next engine, which finds it. */
	CHECK_EQ(cgpu_gpu_facts(&bench->core, 0, &facts), 0);
	CHECK_EQ(cgpu_gpu_add(&bench->core, &facts), 0);
	CHECK_EQ(bench->events, 2);
	CHECK_EQ(cgpu_gpu_set_lost(&bench->core, 0, 1), 0);
	CHECK_EQ(cgpu_gpu_add(&bench->core, &facts), 0);
	check_back(bench, "GPU 0 (GPU-0): the driver answers for it again", "event=back gpu=0 uuid=GPU-0");
}

TEST_ON(new_slices_of_it_are_refused, bench_new("580.142"))
{
	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:1048576"), 0);
	CHECK_EQ(cgpu_gpu_set_lost(&bench->core, 0, 1), 0);
	CHECK_EQ(bench_ctl(bench, "create id=b pid=2 gpu=0:1048576"), -EIO);
	CHECK_EQ(bench_ctl(bench, "create id=b pid=2 gpu=1:1048576 gpu=0:1048576"), -EIO);
	CHECK_EQ(bench_ctl(bench, "reserve id=s gpu=0:1048576"), -EIO);
	CHECK_EQ(bench_ctl(bench, "create id=b pid=2 gpu=1:1048576"), 0);
	/* An existing instance may go. */
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	CHECK_EQ(cgpu_gpu_set_lost(&bench->core, 0, 0), 0);
	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:1048576"), 0);
}

TEST_ON(it_outlives_the_engine, bench_new("580.142"))
{
	struct cgpu_state *own = bench->core.state, *taken = calloc(1, cgpu_state_bytes());

	CHECK(taken != NULL);
	CHECK_EQ(cgpu_gpu_set_lost(&bench->core, 0, 1), 0);
	CHECK_EQ(cgpu_state_recover(own), 0);
	CHECK_STAT("0/stat", "lost", 1);
	cgpu_state_init(taken, 0);
	CHECK_EQ(cgpu_state_take_over(taken, own), 0);
	bench->core.state = taken;
	CHECK_STAT("0/stat", "lost", 1);
	CHECK_STAT("1/stat", "lost", 0);
	/* A number that the driver did not write. */
	taken->gpu[1].lost = 7;
	CHECK_EQ(cgpu_state_recover(taken), 0);
	CHECK_STAT("1/stat", "lost", 1);
	bench->core.state = own;
	free(taken);
}
