// SPDX-License-Identifier: GPL-2.0-only
/*
 * The driver's scheduling controls: channel enable and disable, and timeslices. On each card whose channels are set a client
 * of our own stays from round to round, with the card open and the driver held: that is as long as a container has channels
 * there, which hold both anyway. After the last round all of it is released, so that the driver can be unloaded. All
 * functions run under rounds_lock.
 */
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "driver/driver.h"
#include "sched/rounds.h"

/* The most in one go: then other GPUs are served. */
#define CHANNEL_BATCHES 8u
#define TIMESLICES 64u

/* A card that is released. The last close stops it, which takes seconds: not in the thread that serves all cards. */
struct card_release {
	struct work_struct work;
	const struct cgpu_km_rm *rm;
	u32 gpu_id;
};

/* NULL: the driver is not held. */
static struct cgpu_km_controls *controls;
static struct workqueue_struct *controls_queue;

int km_controls_init(void)
{
	controls_queue = alloc_workqueue("cgpu_controls", WQ_UNBOUND, 0);
	return controls_queue ? 0 : -ENOMEM;
}

void km_controls_exit(void)
{
	destroy_workqueue(controls_queue);
}

static void card_release_work(struct work_struct *work)
{
	struct card_release *release = container_of(work, struct card_release, work);

	release->rm->close(release->rm, release->gpu_id);
	km_rm_end(release->rm);
	kfree(release);
}

static int controls_start(const struct km_engine *engine)
{
	const struct cgpu_km_rm *rm;

	if (controls)
		return 0;
	controls = kzalloc(sizeof(*controls), GFP_KERNEL);
	if (!controls)
		return -ENOMEM;
	rm = km_rm_begin(engine);
	if (IS_ERR(rm)) {
		kfree(controls);
		controls = NULL;
		return PTR_ERR(rm);
	}
	controls->rm = rm;
	return 0;
}

void km_controls_release(void)
{
	u32 gpu;

	if (!controls)
		return;
	for (gpu = 0; gpu < CGPU_MAX_GPUS; gpu++) {
		if (controls->client[gpu])
			return;
	}
	km_rm_end(controls->rm);
	kfree(controls);
	controls = NULL;
}

static int card_open(struct km_engine *engine, u32 gpu)
{
	struct cgpu_gpu_facts facts;
	int err;

	if (controls->client[gpu])
		return 0;
	err = engine->logic->gpu_facts(&engine->core, gpu, &facts);
	if (err)
		return err;
	err = controls->rm->open(controls->rm, facts.gpu_id);
	if (err)
		return err;
	controls->gpu_id[gpu] = facts.gpu_id;
	err = engine->logic->controls_open(engine->core.abi, controls, gpu);
	if (err)
		controls->rm->close(controls->rm, facts.gpu_id);
	return err;
}

/* Close the card in a work item, where that is possible. */
static void card_give(const struct km_engine *engine, u32 gpu)
{
	struct card_release *release = kzalloc(sizeof(*release), GFP_KERNEL);
	const struct cgpu_km_rm *rm = release ? km_rm_begin(engine) : ERR_PTR(-ENOMEM);

	if (IS_ERR(rm)) {
		kfree(release);
		controls->rm->close(controls->rm, controls->gpu_id[gpu]);
		return;
	}
	release->rm = rm;
	release->gpu_id = controls->gpu_id[gpu];
	INIT_WORK(&release->work, card_release_work);
	queue_work(controls_queue, &release->work);
}

void km_controls_close(struct km_engine *engine, u32 gpu)
{
	if (controls && controls->client[gpu]) {
		engine->logic->controls_close(engine->core.abi, controls, gpu);
		card_give(engine, gpu);
	}
	km_controls_release();
}

static struct cgpu_channel_batch channels;

/* Tell the core that the channels stay as they are. */
static void channels_leave(struct km_engine *engine, u32 gpu)
{
	if (engine->logic->gates_next(&engine->core, gpu, &channels) == 0)
		engine->logic->gates_done(&engine->core, &channels, CGPU_CONTROL_FAILED);
}

static int channels_set(struct km_engine *engine, u32 gpu)
{
	u32 batch, status;
	int err;

	for (batch = 0; engine->logic->gates_next(&engine->core, gpu, &channels) == 0; batch++) {
		if (batch == CHANNEL_BATCHES)
			return -EAGAIN;
		err = card_open(engine, gpu);
		if (err) {
			engine->logic->gates_done(&engine->core, &channels, CGPU_CONTROL_FAILED);
			return err;
		}
		status = engine->logic->controls_set_channels(engine->core.abi, controls, &channels);
		engine->logic->gates_done(&engine->core, &channels, status);
		if (status == CGPU_CONTROL_FAILED)
			return -EIO;
	}
	return 0;
}

static int timeslices_set(struct km_engine *engine, u32 gpu)
{
	struct cgpu_timeslice slice;
	u32 count, cursor = 0, status;

	for (count = 0; engine->logic->slices_next(&engine->core, gpu, 0, &cursor, &slice) == 0; count++) {
		if (count == TIMESLICES)
			return 1;
		status = engine->logic->controls_set_timeslice(engine->core.abi, controls, &slice);
		engine->logic->slices_done(&engine->core, &slice, status);
	}
	return 0;
}

int km_controls_set(struct km_engine *engine, u32 gpu)
{
	int err = controls_start(engine), more;

	if (err) {
		channels_leave(engine, gpu);
		return err;
	}
	err = channels_set(engine, gpu);
	more = timeslices_set(engine, gpu);
	return err ? err : more;
}
