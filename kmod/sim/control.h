/* SPDX-License-Identifier: Apache-2.0 */
/* Control calls: what answers each. */
#ifndef CGPU_SIM_CONTROL_H
#define CGPU_SIM_CONTROL_H

#include "sim.h"

/* A control call; card is a copy, and SIM_NO_CARD stands for the client object. */
struct control {
	bool waits; /* before it returns, for what it has asked of the engines */
	struct call *call;
	uint32_t card_index;
	bool denied; /* mig_denies() */
	struct card card;
	uint8_t *params;
};

/* What the caller has to be allowed (g_*_nvoc.c, flags and access rights of each control). The kernel may do all. */
enum rights { RIGHTS_NONE, RIGHTS_NICE, RIGHTS_ADMIN };

/* control_memory.c, control_identity.c, control_pid.c, mig.c: run without the lock. */
uint32_t control_fb_info_v1(struct control *control);
uint32_t control_fb_info_v2(struct control *control);
uint32_t control_fb_regions(struct control *control);
uint32_t control_attached_ids(struct control *control);
uint32_t control_id_info(struct control *control);
uint32_t control_gid_info(struct control *control);
uint32_t control_gpu_info(struct control *control);
uint32_t control_name(struct control *control);
uint32_t control_pids(struct control *control);
uint32_t control_pid_info(struct control *control);
uint32_t fb_info_of(const struct card *card, uint32_t index);
/* control_limits.c */
uint32_t control_set_limits(struct control *control);
/* control_export.c */
uint32_t control_export_object(struct control *control);
uint32_t control_export_objects(struct control *control);
uint32_t control_export_create(struct control *control);
uint32_t control_export_info(struct control *control);
uint32_t control_import_object(struct control *control);
uint32_t control_import_objects(struct control *control);
/* control_samples.c */
uint32_t control_samples(struct control *control);

/* Those on a card's engines run with the lock held, and the engines are at the time of the call. */
/* control_group.c: on a channel group, or on a channel */
uint32_t lever_schedule(struct control *control, struct object *object);
uint32_t lever_bind(struct control *control, struct object *object);
uint32_t lever_set_timeslice(struct control *control, struct object *object);
uint32_t lever_get_timeslice(struct control *control, struct object *object);
uint32_t lever_preempt(struct control *control, struct object *object);
uint32_t lever_interleave(struct control *control, struct object *object);
uint32_t lever_realtime(struct control *control, struct object *object);
uint32_t lever_restart(struct control *control, struct object *object);
/* control_fifo.c: on a subdevice, the last one on a device */
uint32_t lever_disable_channels(struct control *control, struct object *object);
uint32_t lever_policy_of_runlists(struct control *control, struct object *object);
uint32_t lever_set_compute_policy(struct control *control, struct object *object);
uint32_t lever_get_compute_policy(struct control *control, struct object *object);
uint32_t lever_channel_properties(struct control *control, struct object *object);

#endif
