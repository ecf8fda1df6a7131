// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Searches the generated tables for the verdict on a class, a control or a call of nvidia-uvm, by its number. */
#include "call/call.h"

_Static_assert(__builtin_offsetof(struct nv_class, id) == 0, "core_find_row() looks there");
_Static_assert(__builtin_offsetof(struct nv_control, number) == 0, "core_find_row() looks there");

const void *core_find_row(const void *table, u32 count, size_t row_bytes, u32 number)
{
	u32 low = 0, high = count;

	while (low < high) {
		u32 middle = low + (high - low) / 2;
		const u32 *row = (const void *)((const u8 *)table + middle * row_bytes);

		if (*row == number)
			return row;
		if (*row < number)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

const struct nv_class *core_class(u32 class)
{
	return core_find_row(nv_classes, nv_class_count, sizeof(nv_classes[0]), class);
}

static const struct nv_control *find_control(const struct nv_control *table, u32 count, u32 number)
{
	return core_find_row(table, count, sizeof(*table), number);
}

u32 core_control_verdict(u32 command)
{
	const struct nv_control *known = find_control(nv_controls, nv_controls_count, command);

	if (known == NULL)
		known = find_control(
			nv_control_families, nv_control_families_count, command & ~(NV_CONTROL_FAMILY - 1));
	return known ? known->verdict : NV_CONTROL_UNKNOWN;
}

int cgpu_uvm_is_served(u32 nr)
{
	const struct nv_control *known = find_control(nv_judged_uvm, nv_judged_uvm_count, nr);

	return known && known->verdict != NV_CONTROL_REFUSE;
}
