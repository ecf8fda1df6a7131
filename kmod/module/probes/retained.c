// SPDX-License-Identifier: GPL-2.0-only
/*
 * Channels that UVM retains. It duplicates their groups, and keeps their numbers, until long after the container has freed
 * them. The context's charge stays as long, and group and channel count among those of the container.
 */
#include <linux/hash.h>
#include <linux/slab.h>

#include "probes/references.h"
#include "probes/task_call.h"

/* UVM knows a retained channel by an address alone. References are found by handles: with one handle for all, each
 * search would go through all. */
static __always_inline u32 key_of(const void *retained)
{
	return hash_ptr(retained, 32);
}

struct retain_call {
	const void *va_space;
	u32 client, channel;
	void **retained;
	void *info;
};

KM_EXTERNAL(retain, u32(const void *, u32, u32, void **, void *));

static u32 run_retain(const void *of)
{
	const struct retain_call *call = of;

	return km_call(retain)(call->va_space, call->client, call->channel, call->retained, call->info);
}

KM_EXTERNAL(release, void(void *));

/* After an error the caller drops the references that were made. */
static int begin(struct km_engine *engine, struct cgpu_reference_request *request, struct km_reference *reference)
{
	int err;

	request->to = CGPU_REFERENCE_CHANNEL;
	err = engine->logic->hold_begin(&engine->core, request, &reference->hold);
	if (err)
		return err;
	request->to = CGPU_REFERENCE_GROUP;
	return engine->logic->hold_begin(&engine->core, request, &reference->also);
}

/* -ENOENT: the container is gone. */
static int confirm(struct km_engine *engine, const struct km_reference *reference)
{
	int err = engine->logic->hold_confirm(&engine->core, &reference->hold);

	if (err || !reference->also.serial)
		return err;
	return engine->logic->hold_confirm(&engine->core, &reference->also);
}

static void forget(struct km_engine *engine, struct km_reference *reference)
{
	engine->logic->hold_drop(&engine->core, &reference->hold);
	engine->logic->hold_drop(&engine->core, &reference->also);
	kfree(reference);
}

static u32 status_of(int err)
{
	if (err == -ENOSPC)
		return NV_ERR_INSUFFICIENT_RESOURCES;
	return err == -EPERM ? NV_ERR_INVALID_CHANNEL : NV_ERR_INSUFFICIENT_PERMISSIONS;
}

/* In the container's order. */
static u32 retain_ordered(struct km_engine *engine, struct cgpu_reference_request *request, const void *of,
	struct km_reference *reference)
{
	const struct retain_call *call = of;
	int err = begin(engine, request, reference);
	u32 status = err ? status_of(err) : run_retain(call);

	if (status != NV_OK || !reference->hold.serial) {
		forget(engine, reference);
		return status;
	}
	if (confirm(engine, reference)) {
		km_call(release)(*call->retained);
		forget(engine, reference);
		return NV_ERR_INSUFFICIENT_PERMISSIONS;
	}
	km_reference_add(reference, *call->retained, key_of(*call->retained));
	return NV_OK;
}

/* nvUvmInterfaceRetainChannel() */
static u32 retain_channel(const void *va_space, u32 client, u32 channel, void **retained, void *info)
{
	const struct retain_call call = { va_space, client, channel, retained, info };
	const struct km_reference_call what = { client, channel, &call, run_retain, retain_ordered };

	return km_reference_run(&what);
}

static bool release_wants(struct pt_regs *regs)
{
	const void *retained = (const void *)regs_get_kernel_argument(regs, 0);

	return km_reference_known(retained, key_of(retained));
}
NOKPROBE_SYMBOL(release_wants);

/* nvUvmInterfaceReleaseChannel(), from whatever thread UVM does it */
static void release_channel(void *retained)
{
	struct km_reference *reference = km_reference_release(retained, key_of(retained));

	km_call(release)(retained);
	if (reference)
		km_reference_released(reference, true);
	km_probe_leave();
}

KM_PROBE_AROUND(retain, "nvidia", "nvUvmInterfaceRetainChannel", retain_channel, km_reference_wants);
KM_PROBE_AROUND(release, "nvidia", "nvUvmInterfaceReleaseChannel", release_channel, release_wants);
