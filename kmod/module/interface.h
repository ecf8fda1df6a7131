/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Between the two modules. cgpu_km.ko stays loaded: it has the state, the tree's files, the probes, and finds the
 * container of each caller. cgpu_core_<version>.ko is the C core, and what depends on the driver's layouts; another
 * version of it can take over while containers run. Change the number in CGPU_KM_INTERFACE with anything in here, in
 * cgpu_core.h or in cgpu_round.h that both sides see. The fields of the driver's layouts change it by themselves.
 */
#ifndef CGPU_KM_INTERFACE_H
#define CGPU_KM_INTERFACE_H

#include <linux/list.h>
#include <linux/module.h>

#include "cgpu_round.h"

#define CGPU_KM_INTERFACE (1u ^ NV_ABI_ORDER)

/* A card as the driver lists it, before it is asked for more. */
struct cgpu_km_card {
	u32 gpu_id;
	u32 minor;
};

/* A card's own facts that change. */
struct cgpu_km_card_now {
	u64 free_bytes; /* 0 where MIG hides it */
	u32 has_mig; /* 1: it can be in MIG mode at all */
	u32 mig; /* 1: it is */
};

/* The driver's interface for other kernel modules (kernel-open/common/inc/nv-modeset-interface.h), for one thread at a
 * time. */
struct cgpu_km_rm {
	int (*open)(const struct cgpu_km_rm *rm, u32 gpu_id);
	void (*close)(const struct cgpu_km_rm *rm, u32 gpu_id);
	/* One nvidia_kernel_rmapi_ops_t of CGPU_KM_RM_BYTES. */
	void (*op)(const struct cgpu_km_rm *rm, void *message);
	/* The driver's list: up to CGPU_MAX_GPUS records of nv_gpu_info_t. Returns how many. */
	u32 (*list)(const struct cgpu_km_rm *rm, u8 *records);
	/* The minor of the card at this PCI address, which is open. Negative errno. */
	int (*minor_at)(u32 domain, u32 bus, u32 slot);
};
#define CGPU_KM_RM_BYTES 256u

/* For scheduling controls: what stays open in the driver from round to round. */
struct cgpu_km_controls {
	const struct cgpu_km_rm *rm;
	u32 gpu_id[CGPU_MAX_GPUS];
	u32 client[CGPU_MAX_GPUS]; /* of our own, on a card that is open; 0: none */
	u8 room[1024]; /* for the parameters of one call */
};

/* Offer of cgpu_core_<version>.ko. Functions are those of cgpu_core.h unless said otherwise. */
struct cgpu_km_core {
	struct list_head list; /* cgpu_km.ko's */
	struct module *owner;
	u32 interface;
	const char *version;

	size_t (*state_bytes)(void);
	u32 (*state_version)(void);
	void (*state_init)(struct cgpu_state *state, u64 key);
	int (*state_convert)(struct cgpu_state *to, const struct cgpu_state *from);
	/* The core has the room for a row: for one thread at a time. Does not sleep. */
	const struct nv_abi *(*abi_choose)(
		const char *version, const char *rows, int nearest, enum cgpu_abi_source *source);
	int (*settings_apply)(struct cgpu_core *core, const struct cgpu_settings *settings);

	int (*gpu_add)(struct cgpu_core *core, const struct cgpu_gpu_facts *facts);
	int (*gpu_facts)(struct cgpu_core *core, u32 gpu, struct cgpu_gpu_facts *facts);
	int (*gpu_set_memfree)(struct cgpu_core *core, u32 gpu, u64 bytes);
	int (*gpu_look)(struct cgpu_core *core, u32 gpu, const struct cgpu_card_view *view);
	int (*gpu_set_mig)(struct cgpu_core *core, u32 gpu, u32 mig);
	u64 (*gpu_orphaned)(struct cgpu_core *core, u32 gpu);
	u32 (*orphans)(struct cgpu_core *core);
	u32 (*container_gpus)(struct cgpu_core *core, u32 slot, u64 generation);
	int (*minor_granted)(struct cgpu_core *core, u32 slot, u64 generation, u32 minor);

	int (*container_next)(struct cgpu_core *core, u32 slot, struct cgpu_container_info *info);
	int (*container_remove)(struct cgpu_core *core, u32 slot, u64 generation);
	int (*tree_lookup)(struct cgpu_core *core, const char *path, struct cgpu_node *node);
	int (*tree_name)(
		struct cgpu_core *core, const struct cgpu_node *directory, u32 index, char *name, size_t bytes);
	u32 (*tree_changes)(struct cgpu_core *core);
	long (*tree_read)(struct cgpu_core *core, const struct cgpu_node *node, char *text, size_t bytes);
	int (*tree_write)(struct cgpu_core *core, const struct cgpu_node *node, const char *text, size_t bytes,
		struct cgpu_refusal *why);

	int (*uvm_is_served)(u32 nr);
	u32 (*call_plan)(struct cgpu_core *core, struct cgpu_call *call);
	enum cgpu_verdict (*call_begin)(struct cgpu_core *core, struct cgpu_call *call);
	int (*call_question)(
		struct cgpu_core *core, const struct cgpu_call *call, u32 number, struct cgpu_call *question);
	u32 (*call_answered)(
		struct cgpu_core *core, struct cgpu_call *call, u32 number, const struct cgpu_call *question);
	int (*call_end)(struct cgpu_core *core, struct cgpu_call *call, int result);
	int (*call_undo)(struct cgpu_core *core, struct cgpu_call *call, struct cgpu_call *undo);
	int (*turn)(struct cgpu_core *core, u32 gpu, struct cgpu_round *turn);
	int (*gates_next)(struct cgpu_core *core, u32 gpu, struct cgpu_channel_batch *channels);
	void (*gates_done)(struct cgpu_core *core, const struct cgpu_channel_batch *channels, u32 status);
	int (*slices_next)(struct cgpu_core *core, u32 gpu, u32 client, u32 *cursor, struct cgpu_timeslice *slice);
	void (*slices_done)(struct cgpu_core *core, const struct cgpu_timeslice *slice, u32 status);
	void (*file_closed)(struct cgpu_core *core, u64 file);
	int (*hold_begin)(
		struct cgpu_core *core, const struct cgpu_reference_request *request, struct cgpu_reference *hold);
	int (*hold_charge)(
		struct cgpu_core *core, const struct cgpu_reference_request *request, struct cgpu_reference *hold);
	void (*hold_shrink)(struct cgpu_core *core, const struct cgpu_reference *hold, u64 bytes);
	int (*hold_confirm)(struct cgpu_core *core, const struct cgpu_reference *hold);
	void (*hold_drop)(struct cgpu_core *core, const struct cgpu_reference *hold);

	/* cards.c: the driver's facts about its cards. Number of them, or negative errno. */
	/* Open the cards that start, in the order of their minors; the caller closes them. Returns how many, or
	 * negative errno where there are cards and none starts. */
	int (*cards_open)(const struct nv_abi *abi, const struct cgpu_km_rm *rm, struct cgpu_km_card *cards);
	int (*card_facts)(const struct nv_abi *abi, const struct cgpu_km_rm *rm, const struct cgpu_km_card *card,
		struct cgpu_gpu_facts *facts, struct cgpu_km_card_now *now);
	int (*card_mig)(
		const struct nv_abi *abi, const struct cgpu_km_rm *rm, const struct cgpu_km_card *card, u32 *mig);
	/* Take a page of a card, which is open, and give it back: a probe of the driver's page allocator learns
	 * which allocator is the card's. */
	int (*card_take_page)(const struct nv_abi *abi, const struct cgpu_km_rm *rm, const struct cgpu_km_card *card);
	/* contained: whether a process, by its number where the caller is, belongs to a container. */
	int (*card_view)(const struct nv_abi *abi, const struct cgpu_km_rm *rm, const struct cgpu_km_card *card,
		bool (*contained)(s32 tgid), struct cgpu_card_view *view);

	/* Have the core know how long processes were at work on a card since the last sample. -EOPNOTSUPP: this driver does
	 * not tell. */
	int (*card_samples)(struct cgpu_core *core, const struct cgpu_km_rm *rm, const struct cgpu_km_card *card,
		u32 gpu, struct cgpu_sampling *sampling);

	/* sched_controls.c: a client on a card, whose gpu_id is set and which is open; and two controls, which give the
	 * driver's status or CGPU_CONTROL_FAILED. Channels are set by the client. */
	int (*controls_open)(const struct nv_abi *abi, struct cgpu_km_controls *controls, u32 gpu);
	void (*controls_close)(const struct nv_abi *abi, struct cgpu_km_controls *controls, u32 gpu);
	u32 (*controls_set_channels)(
		const struct nv_abi *abi, struct cgpu_km_controls *controls, const struct cgpu_channel_batch *channels);
	u32 (*controls_set_timeslice)(
		const struct nv_abi *abi, struct cgpu_km_controls *controls, const struct cgpu_timeslice *slice);
};

/* Offer a core. The first one becomes the engine at once; a later one waits for a write to the tree's upgrade node.
 * -EPROTO: another interface; -EEXIST: this version is there already. */
int cgpu_km_core_register(struct cgpu_km_core *core);
/* Take it back, on unload: the module's count keeps it while it is in use. */
void cgpu_km_core_unregister(struct cgpu_km_core *core);

#endif
