// SPDX-License-Identifier: GPL-2.0
/*
 * GPU time. The core decides whose turn it is; one thread does what it says on all cards, and sleeps until the end of the
 * next turn, or until something changes. While nobody has channels it sleeps for good.
 *
 * What it holds: turns_lock, then the engine while it works, then the core's lock or the driver's. The control lock comes
 * before all of these. Calls of containers wait for the thread with nothing of that held.
 */
#include <linux/delay.h>
#include <linux/freezer.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/wait.h>

#include "km.h"

/* After a failure that may pass. */
#define AGAIN_NS (100ull * NSEC_PER_MSEC)
/* Changes that come faster are dealt with together: a container can cause them by its calls. */
#define GAP_US 50u
/* ... for as long as dealing with them has taken, so that they take half of a processor at most. */
#define GAP_MOST_US 1000u
/* Whatever is decided, others run in between. */
#define LEAST_NS (20ull * NSEC_PER_USEC)

static struct task_struct *turns_thread;
/* Around all that it does, so that others can do it in its place. */
static DEFINE_MUTEX(turns_lock);
static bool turns_ended = true; /* no engine is there, or will be soon */
static u64 turns_until[CGPU_MAX_GPUS];
static u64 turns_again[CGPU_MAX_GPUS]; /* not before then: its channels cannot be reached */
static unsigned long turns_due; /* bit n: GPU n */
static unsigned long turns_known; /* the same: it was due at least once; the others are not there */
static unsigned long turns_samples, turns_failing; /* the same */
static atomic_t turns_asked[CGPU_MAX_GPUS];
static int turns_served[CGPU_MAX_GPUS]; /* what was asked until then has been done */
static DECLARE_WAIT_QUEUE_HEAD(turns_done);

void km_turns_due(void *ctx, u32 gpu)
{
	if (!test_bit(gpu, &turns_known))
		set_bit(gpu, &turns_known);
	set_bit(gpu, &turns_due);
	wake_up_process(turns_thread);
}

void km_turns_await(u32 gpu)
{
	int ticket = atomic_inc_return(&turns_asked[gpu]);

	km_turns_due(NULL, gpu);
	/* One that is killed has no more use for what it was given. */
	(void)wait_event_killable(turns_done, READ_ONCE(turns_served[gpu]) - ticket >= 0);
}

bool km_turns_wants_samples(u32 gpu)
{
	return test_bit(gpu, &turns_samples);
}

static void turns_tell(u32 gpu, int asked)
{
	if (turns_served[gpu] == asked)
		return;
	WRITE_ONCE(turns_served[gpu], asked);
	wake_up_all(&turns_done);
}

/* Once, until it works again. */
static void gpu_tell_failure(u32 gpu, int err)
{
	if (err && !test_and_set_bit(gpu, &turns_failing))
		pr_warn("GPU %u: its channels cannot be reached (error %d): GPU time is not divided meanwhile\n", gpu,
			err);
	else if (!err)
		clear_bit(gpu, &turns_failing);
}

/* Returns when to come back. *more: there are gates left to be set. */
static u64 gpu_decide(struct km_engine *engine, u32 gpu, bool *more)
{
	struct cgpu_turn turn;
	int err = 0;

	if (engine->logic->turn(&engine->core, gpu, &turn))
		return CGPU_TURN_NEVER;
	if ((turn.gates || turn.slices) && turn.now < turns_again[gpu])
		return turns_again[gpu];
	if (turn.gates || turn.slices)
		err = km_levers_pull(engine, gpu);
	/* A change of gates takes time, which the turn gets on top: its end is known after it. */
	if (err == 0 && turn.gates && engine->logic->turn(&engine->core, gpu, &turn))
		return CGPU_TURN_NEVER;
	if (err == 0 && turn.gates)
		err = -EAGAIN;
	assign_bit(gpu, &turns_samples, turn.samples);
	*more = err == -EAGAIN;
	if (err == -EAGAIN || err > 0)
		return turn.now;
	if (turn.until == CGPU_TURN_NEVER)
		km_levers_close(engine, gpu);
	turns_again[gpu] = 0;
	/* With the driver channels went, too; it brings its cards when it comes back. */
	if (!km_driver_attached())
		return turn.until;
	gpu_tell_failure(gpu, err);
	/* From now on: what has failed may have taken long. */
	turns_again[gpu] = err ? ktime_get_ns() + AGAIN_NS : 0;
	return err ? turns_again[gpu] : turn.until;
}

static void gpu_serve(struct km_engine *engine, u32 gpu)
{
	int asked = atomic_read(&turns_asked[gpu]);
	bool more = false;

	turns_until[gpu] = engine ? gpu_decide(engine, gpu, &more) : CGPU_TURN_NEVER;
	if (!more)
		turns_tell(gpu, asked);
}

/* Under the lock. */
static void turns_serve(void)
{
	struct km_engine *engine = turns_ended ? NULL : km_engine_get_surely();
	u32 gpu;

	for_each_set_bit(gpu, &turns_known, CGPU_MAX_GPUS) {
		/* The bit first: what comes after that is for the next time. */
		if (test_and_clear_bit(gpu, &turns_due) || turns_until[gpu] <= ktime_get_ns())
			gpu_serve(engine, gpu);
	}
	km_levers_rest();
	if (engine)
		km_engine_put(engine);
}

static u64 turns_earliest(void)
{
	u64 earliest = CGPU_TURN_NEVER;
	u32 gpu;

	for_each_set_bit(gpu, &turns_known, CGPU_MAX_GPUS)
		earliest = min(earliest, turns_until[gpu]);
	return earliest;
}

static void turns_sleep(u64 until, u64 took)
{
	unsigned long gap = clamp_t(u64, took / NSEC_PER_USEC, GAP_US, GAP_MOST_US);
	ktime_t at = ns_to_ktime(max(until, ktime_get_ns() + LEAST_NS));

	set_current_state(TASK_IDLE);
	if (!READ_ONCE(turns_due) && !kthread_should_stop()) {
		schedule_hrtimeout(until < KTIME_MAX ? &at : NULL, HRTIMER_MODE_ABS);
		return;
	}
	__set_current_state(TASK_RUNNING);
	usleep_range(gap / 2, gap);
}

static int turns_run(void *unused)
{
	/* Cards sleep when the machine does. */
	set_freezable();
	/* Nobody's turn should be longer because the processors are busy. */
	set_user_nice(current, MIN_NICE);
	while (!kthread_should_stop()) {
		u64 begun = ktime_get_ns();

		try_to_freeze();
		mutex_lock(&turns_lock);
		turns_serve();
		mutex_unlock(&turns_lock);
		turns_sleep(turns_earliest(), ktime_get_ns() - begun);
	}
	return 0;
}

void km_turns_begin(void)
{
	mutex_lock(&turns_lock);
	turns_ended = false;
	mutex_unlock(&turns_lock);
}

/* What is left to do, however much it is. */
static void gpu_finish(struct km_engine *engine, u32 gpu)
{
	struct cgpu_turn turn;
	u32 tries;

	turns_until[gpu] = CGPU_TURN_NEVER;
	if (engine->logic->turn(&engine->core, gpu, &turn))
		return;
	for (tries = 0; (turn.gates || turn.slices) && tries < CGPU_MAX_OBJECTS / CGPU_GATES; tries++) {
		int err = km_levers_pull(engine, gpu);

		if (err != -EAGAIN && err <= 0)
			break;
	}
	km_levers_close(engine, gpu);
}

void km_turns_end(struct km_engine *engine)
{
	u32 gpu;

	mutex_lock(&turns_lock);
	for (gpu = 0; gpu < CGPU_MAX_GPUS; gpu++)
		gpu_finish(engine, gpu);
	turns_ended = true;
	mutex_unlock(&turns_lock);
}

int km_turns_init(void)
{
	memset(turns_until, 0xff, sizeof(turns_until));
	if (km_levers_init())
		return -ENOMEM;
	turns_thread = kthread_run(turns_run, NULL, "cgpu_turns");
	if (IS_ERR(turns_thread))
		km_levers_exit();
	return PTR_ERR_OR_ZERO(turns_thread);
}

void km_turns_exit(void)
{
	kthread_stop(turns_thread);
	km_levers_exit();
}
