// SPDX-License-Identifier: GPL-2.0
/*
 * Scheduling rounds. The core decides which container runs on a GPU; one thread carries that out on all cards, and sleeps
 * until a container's time ends, or until something changes. While no container has channels it sleeps without a limit.
 */
#include <linux/delay.h>
#include <linux/freezer.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/wait.h>

#include "driver/driver.h"
#include "sched/rounds.h"

/* The next attempt after a failure that may be temporary. */
#define AGAIN_NS (100ull * NSEC_PER_MSEC)
/* Changes that come faster are handled together: a container can cause them by its calls. */
#define GAP_US 50u
/* The pause is as long as the work before it took, so that the thread uses half of a processor at most. */
#define GAP_MOST_US 1000u
/* The shortest sleep: other threads run in it. */
#define LEAST_NS (20ull * NSEC_PER_USEC)

static struct task_struct *rounds_thread;
/* Around all that the thread does, so that others can do it in its place. */
static DEFINE_MUTEX(rounds_lock);
static bool rounds_ended = true; /* no engine is there, or will be soon */
static u64 rounds_until[CGPU_MAX_GPUS];
static u64 rounds_again[CGPU_MAX_GPUS]; /* not before then: its channels cannot be reached */
static unsigned long rounds_due; /* bit n: GPU n */
static unsigned long rounds_known; /* the same: it was due at least once; the others are not there */
static unsigned long rounds_samples, rounds_failing; /* the same */
static atomic_t rounds_asked[CGPU_MAX_GPUS];
static int rounds_served[CGPU_MAX_GPUS]; /* what was asked until then has been done */
static DECLARE_WAIT_QUEUE_HEAD(rounds_done);

void km_rounds_due(void *ctx, u32 gpu)
{
	if (!test_bit(gpu, &rounds_known))
		set_bit(gpu, &rounds_known);
	set_bit(gpu, &rounds_due);
	wake_up_process(rounds_thread);
}

void km_rounds_await(u32 gpu)
{
	int ticket = atomic_inc_return(&rounds_asked[gpu]);

	km_rounds_due(NULL, gpu);
	/* A task that is killed does not use what it got. */
	(void)wait_event_killable(rounds_done, READ_ONCE(rounds_served[gpu]) - ticket >= 0);
}

bool km_rounds_want_samples(u32 gpu)
{
	return test_bit(gpu, &rounds_samples);
}

static void rounds_tell(u32 gpu, int asked)
{
	if (rounds_served[gpu] == asked)
		return;
	WRITE_ONCE(rounds_served[gpu], asked);
	wake_up_all(&rounds_done);
}

/* A failure is logged once, until it works again. */
static void gpu_tell_failure(u32 gpu, int err)
{
	if (err && !test_and_set_bit(gpu, &rounds_failing))
		pr_warn("GPU %u: its channels cannot be reached (error %d): GPU time is not divided meanwhile\n", gpu,
			err);
	else if (!err)
		clear_bit(gpu, &rounds_failing);
}

/* Returns when to come back. *more: some channels are not set yet. */
static u64 gpu_decide(struct km_engine *engine, u32 gpu, bool *more)
{
	struct cgpu_round turn;
	int err = 0;

	if (engine->logic->turn(&engine->core, gpu, &turn))
		return CGPU_ROUND_NEVER;
	if ((turn.channels || turn.timeslices) && turn.now < rounds_again[gpu])
		return rounds_again[gpu];
	if (turn.channels || turn.timeslices)
		err = km_controls_set(engine, gpu);
	/* Setting channels takes time, by which the container's time is extended: its end is known afterwards. */
	if (err == 0 && turn.channels && engine->logic->turn(&engine->core, gpu, &turn))
		return CGPU_ROUND_NEVER;
	if (err == 0 && turn.channels)
		err = -EAGAIN;
	assign_bit(gpu, &rounds_samples, turn.samples);
	*more = err == -EAGAIN;
	if (err == -EAGAIN || err > 0)
		return turn.now;
	if (turn.until == CGPU_ROUND_NEVER)
		km_controls_close(engine, gpu);
	rounds_again[gpu] = 0;
	/* The channels are gone with the driver. The cards come back with it. */
	if (!km_driver_attached())
		return turn.until;
	gpu_tell_failure(gpu, err);
	/* Counted from now: the attempt that failed may have taken long. */
	rounds_again[gpu] = err ? ktime_get_ns() + AGAIN_NS : 0;
	return err ? rounds_again[gpu] : turn.until;
}

static void gpu_serve(struct km_engine *engine, u32 gpu)
{
	int asked = atomic_read(&rounds_asked[gpu]);
	bool more = false;

	rounds_until[gpu] = engine ? gpu_decide(engine, gpu, &more) : CGPU_ROUND_NEVER;
	if (!more)
		rounds_tell(gpu, asked);
}

static void rounds_serve(void)
{
	struct km_engine *engine = rounds_ended ? NULL : km_engine_get_surely();
	u32 gpu;

	lockdep_assert_held(&rounds_lock);
	for_each_set_bit(gpu, &rounds_known, CGPU_MAX_GPUS) {
		/* The bit is cleared first: what becomes due after that is done next time. */
		if (test_and_clear_bit(gpu, &rounds_due) || rounds_until[gpu] <= ktime_get_ns())
			gpu_serve(engine, gpu);
	}
	km_controls_release();
	km_engine_put(engine);
}

static u64 rounds_earliest(void)
{
	u64 earliest = CGPU_ROUND_NEVER;
	u32 gpu;

	for_each_set_bit(gpu, &rounds_known, CGPU_MAX_GPUS)
		earliest = min(earliest, rounds_until[gpu]);
	return earliest;
}

static void rounds_sleep(u64 until, u64 took)
{
	unsigned long gap = clamp_t(u64, took / NSEC_PER_USEC, GAP_US, GAP_MOST_US);
	ktime_t at = ns_to_ktime(max(until, ktime_get_ns() + LEAST_NS));

	set_current_state(TASK_IDLE);
	if (!READ_ONCE(rounds_due) && !kthread_should_stop()) {
		schedule_hrtimeout(until < KTIME_MAX ? &at : NULL, HRTIMER_MODE_ABS);
		return;
	}
	__set_current_state(TASK_RUNNING);
	usleep_range(gap / 2, gap);
}

static int rounds_run(void *unused)
{
	/* The cards are suspended with the machine. */
	set_freezable();
	/* No container should run longer because the processors are busy. */
	set_user_nice(current, MIN_NICE);
	while (!kthread_should_stop()) {
		u64 begun = ktime_get_ns();

		try_to_freeze();
		mutex_lock(&rounds_lock);
		rounds_serve();
		mutex_unlock(&rounds_lock);
		rounds_sleep(rounds_earliest(), ktime_get_ns() - begun);
	}
	return 0;
}

void km_rounds_begin(void)
{
	mutex_lock(&rounds_lock);
	rounds_ended = false;
	mutex_unlock(&rounds_lock);
}

/* Do all that is left. */
static void gpu_finish(struct km_engine *engine, u32 gpu)
{
	struct cgpu_round turn;
	u32 tries;

	rounds_until[gpu] = CGPU_ROUND_NEVER;
	if (engine->logic->turn(&engine->core, gpu, &turn))
		return;
	for (tries = 0; (turn.channels || turn.timeslices) && tries < CGPU_MAX_OBJECTS / CGPU_CHANNEL_BATCH; tries++) {
		int err = km_controls_set(engine, gpu);

		if (err != -EAGAIN && err <= 0)
			break;
	}
	km_controls_close(engine, gpu);
}

void km_rounds_end(struct km_engine *engine)
{
	u32 gpu;

	lockdep_assert_held(&km_control_lock);
	mutex_lock(&rounds_lock);
	for (gpu = 0; gpu < CGPU_MAX_GPUS; gpu++)
		gpu_finish(engine, gpu);
	rounds_ended = true;
	mutex_unlock(&rounds_lock);
}

int km_rounds_init(void)
{
	memset(rounds_until, 0xff, sizeof(rounds_until));
	if (km_controls_init())
		return -ENOMEM;
	rounds_thread = kthread_run(rounds_run, NULL, "cgpu_turns");
	if (IS_ERR(rounds_thread))
		km_controls_exit();
	return PTR_ERR_OR_ZERO(rounds_thread);
}

void km_rounds_exit(void)
{
	kthread_stop(rounds_thread);
	km_controls_exit();
}
