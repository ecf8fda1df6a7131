// SPDX-License-Identifier: GPL-2.0
/*
 * The driver's levers. A client of our own on each card whose gates are set stays from turn to turn, with the card open and
 * the driver held; that is as long as a container has channels there, which hold both anyway. With the last turn all of it
 * goes, so that the driver can. All here is for one thread at a time.
 */
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "km.h"

/* In one go: then it is time to see who else wants something. */
#define BATCHES 8u
#define SLICES 64u

/* A card that is given back. The last close stops it, which takes seconds: not in the thread that serves all cards. */
struct card_rest {
	struct work_struct work;
	const struct cgpu_km_rm *rm;
	u32 gpu_id;
};

/* NULL: the driver is not held. */
static struct cgpu_km_levers *levers;
static struct workqueue_struct *levers_queue;

int km_levers_init(void)
{
	levers_queue = alloc_workqueue("cgpu_levers", WQ_UNBOUND, 0);
	return levers_queue ? 0 : -ENOMEM;
}

void km_levers_exit(void)
{
	destroy_workqueue(levers_queue);
}

static void card_rest(struct work_struct *work)
{
	struct card_rest *rest = container_of(work, struct card_rest, work);

	rest->rm->close(rest->rm, rest->gpu_id);
	km_rm_end(rest->rm);
	kfree(rest);
}

static int levers_start(const struct km_engine *engine)
{
	const struct cgpu_km_rm *rm;

	if (levers)
		return 0;
	levers = kzalloc(sizeof(*levers), GFP_KERNEL);
	if (!levers)
		return -ENOMEM;
	rm = km_rm_begin(engine);
	if (IS_ERR(rm)) {
		kfree(levers);
		levers = NULL;
		return PTR_ERR(rm);
	}
	levers->rm = rm;
	return 0;
}

void km_levers_rest(void)
{
	u32 gpu;

	if (!levers)
		return;
	for (gpu = 0; gpu < CGPU_MAX_GPUS; gpu++) {
		if (levers->client[gpu])
			return;
	}
	km_rm_end(levers->rm);
	kfree(levers);
	levers = NULL;
}

static int card_open(struct km_engine *engine, u32 gpu)
{
	struct cgpu_gpu_facts facts;
	int err;

	if (levers->client[gpu])
		return 0;
	err = engine->logic->gpu_facts(&engine->core, gpu, &facts);
	if (err)
		return err;
	err = levers->rm->open(levers->rm, facts.gpu_id);
	if (err)
		return err;
	levers->gpu_id[gpu] = facts.gpu_id;
	err = engine->logic->levers_open(engine->core.abi, levers, gpu);
	if (err)
		levers->rm->close(levers->rm, facts.gpu_id);
	return err;
}

static void card_give(const struct km_engine *engine, u32 gpu)
{
	struct card_rest *rest = kzalloc(sizeof(*rest), GFP_KERNEL);
	const struct cgpu_km_rm *rm = rest ? km_rm_begin(engine) : ERR_PTR(-ENOMEM);

	if (IS_ERR(rm)) {
		kfree(rest);
		levers->rm->close(levers->rm, levers->gpu_id[gpu]);
		return;
	}
	rest->rm = rm;
	rest->gpu_id = levers->gpu_id[gpu];
	INIT_WORK(&rest->work, card_rest);
	queue_work(levers_queue, &rest->work);
}

void km_levers_close(struct km_engine *engine, u32 gpu)
{
	if (levers && levers->client[gpu]) {
		engine->logic->levers_close(engine->core.abi, levers, gpu);
		card_give(engine, gpu);
	}
	km_levers_rest();
}

static struct cgpu_gates gates;

/* They stay as they are, and the core knows. */
static void gates_leave(struct km_engine *engine, u32 gpu)
{
	if (engine->logic->gates_next(&engine->core, gpu, &gates) == 0)
		engine->logic->gates_done(&engine->core, &gates, CGPU_LEVER_FAILED);
}

static int gates_pull(struct km_engine *engine, u32 gpu)
{
	u32 batch, status;
	int err;

	for (batch = 0; engine->logic->gates_next(&engine->core, gpu, &gates) == 0; batch++) {
		if (batch == BATCHES)
			return -EAGAIN;
		err = card_open(engine, gpu);
		if (err) {
			engine->logic->gates_done(&engine->core, &gates, CGPU_LEVER_FAILED);
			return err;
		}
		status = engine->logic->levers_gates(engine->core.abi, levers, &gates);
		engine->logic->gates_done(&engine->core, &gates, status);
		if (status == CGPU_LEVER_FAILED)
			return -EIO;
	}
	return 0;
}

static int slices_pull(struct km_engine *engine, u32 gpu)
{
	struct cgpu_time_slice slice;
	u32 count, cursor = 0, status;

	for (count = 0; engine->logic->slices_next(&engine->core, gpu, 0, &cursor, &slice) == 0; count++) {
		if (count == SLICES)
			return 1;
		status = engine->logic->levers_slice(engine->core.abi, levers, &slice);
		engine->logic->slices_done(&engine->core, &slice, status);
	}
	return 0;
}

int km_levers_pull(struct km_engine *engine, u32 gpu)
{
	int err = levers_start(engine), more;

	if (err) {
		gates_leave(engine, gpu);
		return err;
	}
	err = gates_pull(engine, gpu);
	more = slices_pull(engine, gpu);
	return err ? err : more;
}
