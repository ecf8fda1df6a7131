// SPDX-License-Identifier: GPL-2.0-only
/* cgpu_core_<version>.ko: the C core as a kernel module. */
#include <linux/init.h>

#include "core_module/cards.h"

/* A row is chosen anew while containers run only by the same text, which has the same numbers. */
static struct nv_abi row_layouts;

static const struct nv_abi *choose_layouts(
	const char *version, const char *rows, int nearest, enum cgpu_abi_source *source)
{
	return cgpu_abi_choose(version, rows, nearest, &row_layouts, source);
}

static struct cgpu_km_core this_core = {
	.owner = THIS_MODULE,
	.interface = CGPU_KM_INTERFACE,
	.version = CGPU_VERSION,

	.state_bytes = cgpu_state_bytes,
	.state_version = cgpu_state_version,
	.state_init = cgpu_state_init,
	.state_convert = cgpu_state_convert,
	.abi_choose = choose_layouts,
	.settings_apply = cgpu_settings_apply,

	.gpu_add = cgpu_gpu_add,
	.gpu_facts = cgpu_gpu_facts,
	.gpu_set_memfree = cgpu_gpu_set_memfree,
	.gpu_look = cgpu_gpu_reconcile,
	.gpu_set_mig = cgpu_gpu_set_mig,
	.gpu_orphaned = cgpu_gpu_orphaned,
	.orphans = cgpu_orphans,
	.container_gpus = cgpu_container_gpus,
	.minor_granted = cgpu_minor_granted,

	.container_next = cgpu_container_next,
	.container_remove = cgpu_container_remove,
	.tree_lookup = cgpu_tree_lookup,
	.tree_name = cgpu_tree_name,
	.tree_changes = cgpu_tree_changes,
	.tree_read = cgpu_tree_read,
	.tree_write = cgpu_tree_write,

	.uvm_is_served = cgpu_uvm_is_served,
	.call_plan = cgpu_call_plan,
	.call_begin = cgpu_call_begin,
	.call_end = cgpu_call_end,
	.call_question = cgpu_call_question,
	.call_answered = cgpu_call_answered,
	.call_undo = cgpu_call_undo,
	.turn = cgpu_round,
	.gates_next = cgpu_channels_next,
	.gates_done = cgpu_channels_done,
	.slices_next = cgpu_timeslices_next,
	.slices_done = cgpu_timeslices_done,
	.file_closed = cgpu_file_closed,
	.hold_begin = cgpu_reference_begin,
	.hold_charge = cgpu_reference_charge,
	.hold_shrink = cgpu_reference_shrink,
	.hold_confirm = cgpu_reference_confirm,
	.hold_drop = cgpu_reference_drop,

	.cards_open = cards_open,
	.card_facts = card_facts,
	.card_view = card_view,
	.card_mig = card_mig,
	.card_take_page = card_take_page,
	.card_samples = card_samples,
	.controls_open = controls_open,
	.controls_close = controls_close,
	.controls_set_channels = controls_set_channels,
	.controls_set_timeslice = controls_set_timeslice,
};

static int __init logic_init(void)
{
	return cgpu_km_core_register(&this_core);
}

static void __exit logic_exit(void)
{
	cgpu_km_core_unregister(&this_core);
}

module_init(logic_init);
module_exit(logic_exit);
MODULE_LICENSE("GPL");
MODULE_AUTHOR("The OpenCGPU authors");
MODULE_DESCRIPTION("OpenCGPU: the engine's logic, exchangeable while containers run");
MODULE_VERSION(CGPU_VERSION);
