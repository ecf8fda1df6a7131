// SPDX-License-Identifier: GPL-2.0
/*
 * Ways to start a card that pass neither its node nor the driver's own ioctl: a list of cards attached to a control
 * file, and a card registered with UVM. Both are for the cards that the container was granted.
 */
#include "km.h"

struct grants_key {
	/* Whether a card is the one that the call names. */
	bool (*is)(const struct cgpu_gpu_facts *facts, const struct grants_key *key);
	u32 gpu_id;
	const u8 *uuid;
};

static bool grants_is_id(const struct cgpu_gpu_facts *facts, const struct grants_key *key)
{
	return facts->gpu_id == key->gpu_id;
}

static bool grants_is_uuid(const struct cgpu_gpu_facts *facts, const struct grants_key *key)
{
	char text[sizeof(facts->uuid)];

	snprintf(text, sizeof(text), "GPU-%pUb", key->uuid);
	return !strcmp(text, facts->uuid);
}

static bool grants_granted(struct km_engine *engine, const struct km_identity *identity, const struct grants_key *key)
{
	struct cgpu_gpu_facts facts;
	u32 gpu;

	for (gpu = 0; gpu < CGPU_MAX_GPUS; gpu++) {
		if (engine->logic->gpu_facts(&engine->core, gpu, &facts) == 0 && key->is(&facts, key))
			return engine->logic->minor_granted(
				&engine->core, identity->slot, identity->generation, facts.minor);
	}
	return false;
}

/* Of the current task, whoever it is. */
static bool grants_may(const struct grants_key *key)
{
	struct km_identity identity;
	int known = km_identity_find(&identity);
	struct km_engine *engine;
	bool granted;

	if (known <= 0)
		return known == 0;
	engine = km_engine_get();
	if (!engine)
		return false;
	granted = grants_granted(engine, &identity, key);
	km_engine_put(engine);
	return granted;
}

/* nvidia_dev_get(), of two arguments up to 590. Its callers outside of containers, this module among them, pass. */
static __nocfi int grants_dev_get(u32 gpu_id, void *sp, u8 reset_aware)
{
	int (*original)(u32, void *, u8) = (void *)km_probe_dev_get.original;
	const struct grants_key key = { .is = grants_is_id, .gpu_id = gpu_id };
	struct km_record *record = km_record_begin();
	int err = -ENOMEM;

	if (record) {
		err = grants_may(&key) ? original(gpu_id, sp, reset_aware) : -EPERM;
		km_record_end(record);
	}
	km_probe_leave();
	return err;
}

/* uvm_gpu_retain_by_uuid(), of three to five arguments: also for a card that UVM has started for somebody else. */
static __nocfi u32 grants_uvm_gpu(
	const u8 *uuid, unsigned long b, unsigned long c, unsigned long d, unsigned long e, unsigned long f)
{
	u32 (*original)(const u8 *, unsigned long, unsigned long, unsigned long, unsigned long, unsigned long) =
		(void *)km_probe_uvm_gpu.original;
	const struct grants_key key = { .is = grants_is_uuid, .uuid = uuid };
	struct km_record *record = km_record_begin();
	u32 status = NV_ERR_NO_MEMORY;

	if (record) {
		status = grants_may(&key) ? original(uuid, b, c, d, e, f) : NV_ERR_INSUFFICIENT_PERMISSIONS;
		km_record_end(record);
	}
	km_probe_leave();
	return status;
}

struct km_probe km_probe_dev_get = {
	.module = "nvidia",
	.symbol = "nvidia_dev_get",
	.replacement = grants_dev_get,
	.wants = km_probe_wants_contained,
};

struct km_probe km_probe_uvm_gpu = {
	.module = "nvidia_uvm",
	.symbol = "uvm_gpu_retain_by_uuid",
	.replacement = grants_uvm_gpu,
	.wants = km_probe_wants_contained,
};
