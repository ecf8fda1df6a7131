// SPDX-License-Identifier: GPL-2.0-only
/*
 * Scheduling rounds. The core decides which container runs on a GPU. One thread carries out the decisions on all cards,
 * and sleeps until a container's time ends or something changes. While no container has channels, the thread sleeps
 * without a limit.
 */
#include <linux/delay.h>
#include <linux/freezer.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/wait.h>

#include "driver/driver.h"
#include "sched/rounds.h"

/* Time from a failure, which may be temporary, to the next attempt. */
#define RETRY_NS (100ull * NSEC_PER_MSEC)
/* The shortest pause between rounds. Changes in a pause are handled together: a container can cause any number. */
#define PAUSE_MIN_US 50u
/* The longest pause. Up to this, a pause is as long as the work before it: the thread uses half a processor at most. */
#define PAUSE_MAX_US 1000u
/* The shortest sleep, in which other threads can run. */
#define SLEEP_MIN_NS (20ull * NSEC_PER_USEC)

static struct task_struct *rounds_thread;
/* Held while rounds are served, so that km_rounds_end() can carry out the last decisions in place of the thread. */
static DEFINE_MUTEX(rounds_lock);
static bool rounds_ended = true; /* there is no engine, or it is about to go */
static u64 rounds_until[CGPU_MAX_GPUS]; /* ns: time of the GPU's next round */
static u64 rounds_retry[CGPU_MAX_GPUS]; /* ns: the GPU's channels could not be reached, and are not tried before */
/* Bit n is for GPU n. */
static unsigned long rounds_due; /* something has changed: serve the GPU at once */
static unsigned long rounds_known; /* the GPU was due at least once; no engine has had the others */
static unsigned long rounds_samples; /* the core needs the driver's samples for GPU time */
static unsigned long rounds_failing; /* the failure to reach the GPU's channels is logged */
static atomic_t rounds_asked[CGPU_MAX_GPUS]; /* number of the last km_rounds_await() */
static int rounds_served[CGPU_MAX_GPUS]; /* number of the last km_rounds_await() for which all is done */
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
	/* A killed task makes no use of its GPU time, so it need not wait. */
	(void)wait_event_killable(rounds_done, READ_ONCE(rounds_served[gpu]) - ticket >= 0);
}

bool km_rounds_want_samples(u32 gpu)
{
	return test_bit(gpu, &rounds_samples);
}

static void rounds_wake(u32 gpu, int asked)
{
	if (rounds_served[gpu] == asked)
		return;
	WRITE_ONCE(rounds_served[gpu], asked);
	wake_up_all(&rounds_done);
}

/* Log a failure once, and again only after a success. */
static void gpu_log_failure(u32 gpu, int err)
{
	if (err && !test_and_set_bit(gpu, &rounds_failing))
		pr_warn("GPU %u: its channels cannot be reached (error %d): GPU time is not divided meanwhile\n", gpu,
			err);
	else if (!err)
		clear_bit(gpu, &rounds_failing);
}

/* Returns the time of the GPU's next round. *more: some channels are not set yet. */
static u64 gpu_decide(struct km_engine *engine, u32 gpu, bool *more)
{
	struct cgpu_round round;
	int err = 0;

	if (engine->logic->turn(&engine->core, gpu, &round))
		return CGPU_ROUND_NEVER;
	if ((round.channels || round.timeslices) && round.now < rounds_retry[gpu])
		return rounds_retry[gpu];
	if (round.channels || round.timeslices)
		err = km_controls_set(engine, gpu);
	/* The core extends the container's time by what setting the channels took. Ask again for its end. */
	if (err == 0 && round.channels && engine->logic->turn(&engine->core, gpu, &round))
		return CGPU_ROUND_NEVER;
	if (err == 0 && round.channels)
		err = -EAGAIN;
	assign_bit(gpu, &rounds_samples, round.samples);
	*more = err == -EAGAIN;
	if (err == -EAGAIN || err > 0)
		return round.now;
	if (round.until == CGPU_ROUND_NEVER)
		km_controls_close(engine, gpu);
	rounds_retry[gpu] = 0;
	/* No failure: the driver was unloaded, and its channels are gone. Loading a driver makes the GPUs due again. */
	if (!km_driver_attached())
		return round.until;
	gpu_log_failure(gpu, err);
	/* Not round.now, as the attempt that failed may have taken long. */
	rounds_retry[gpu] = err ? ktime_get_ns() + RETRY_NS : 0;
	return err ? rounds_retry[gpu] : round.until;
}

static void gpu_serve(struct km_engine *engine, u32 gpu)
{
	int asked = atomic_read(&rounds_asked[gpu]);
	bool more = false;

	rounds_until[gpu] = engine ? gpu_decide(engine, gpu, &more) : CGPU_ROUND_NEVER;
	if (!more)
		rounds_wake(gpu, asked);
}

static void rounds_serve(void)
{
	struct km_engine *engine = rounds_ended ? NULL : km_engine_get_surely();
	u32 gpu;

	lockdep_assert_held(&rounds_lock);
	for_each_set_bit(gpu, &rounds_known, CGPU_MAX_GPUS) {
		/* Clear the bit before the work, so that a change during the work makes the GPU due again. */
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
	unsigned long pause_us = clamp_t(u64, took / NSEC_PER_USEC, PAUSE_MIN_US, PAUSE_MAX_US);
	ktime_t at = ns_to_ktime(max(until, ktime_get_ns() + SLEEP_MIN_NS));

	set_current_state(TASK_IDLE);
	if (!READ_ONCE(rounds_due) && !kthread_should_stop()) {
		schedule_hrtimeout(until < KTIME_MAX ? &at : NULL, HRTIMER_MODE_ABS);
		return;
	}
	__set_current_state(TASK_RUNNING);
	usleep_range(pause_us / 2, pause_us);
}

static int rounds_run(void *unused)
{
	/* The thread must not use the cards while the machine is suspended. */
	set_freezable();
	/* Busy processors must not delay the end of a container's time. */
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

/* Apply what the core still wants on a GPU, then release the card. */
static void gpu_finish(struct km_engine *engine, u32 gpu)
{
	struct cgpu_round round;
	u32 tries;

	rounds_until[gpu] = CGPU_ROUND_NEVER;
	if (engine->logic->turn(&engine->core, gpu, &round))
		return;
	for (tries = 0; (round.channels || round.timeslices) && tries < CGPU_MAX_OBJECTS / CGPU_CHANNEL_BATCH;
		tries++) {
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
