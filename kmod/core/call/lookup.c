// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* What was judged of a class, a control or a call of nvidia-uvm, by its number: searches in the generated tables. */
#include "call/call.h"

const struct nv_class *core_class(u32 class)
{
	u32 low = 0, high = nv_class_count;

	while (low < high) {
		u32 middle = low + (high - low) / 2;

		if (nv_classes[middle].id == class)
			return &nv_classes[middle];
		if (nv_classes[middle].id < class)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

int cgpu_class_is_vidmem(u32 class)
{
	const struct nv_class *about = core_class(class);

	return about && about->memory == NV_CLASS_MEMORY_VIDMEM;
}

static const struct nv_control *find_control(const struct nv_control *table, u32 count, u32 number)
{
	u32 low = 0, high = count;

	while (low < high) {
		u32 middle = low + (high - low) / 2;

		if (table[middle].number == number)
			return &table[middle];
		if (table[middle].number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

u32 core_control_verdict(u32 command)
{
	const struct nv_control *known = find_control(nv_controls, nv_controls_count, command);

	if (known == NULL)
		known = find_control(
			nv_control_families, nv_control_families_count, command & ~(NV_CONTROL_FAMILY - 1));
	return known ? known->verdict : NV_CONTROL_UNKNOWN;
}

int core_uvm_is_known(u32 nr)
{
	const struct nv_control *known = find_control(nv_judged_uvm, nv_judged_uvm_count, nr);

	return known && known->verdict != NV_CONTROL_REFUSE;
}
