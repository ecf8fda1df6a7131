// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Each attribute of a slice has a text, bounds, and a sum over shares. */
#include "registry/registry.h"

const struct core_attribute core_attributes[CGPU_SLICE_ATTRIBUTES] = { CGPU_SLICE_ROWS };

_Static_assert(CGPU_SLICE_WEIGHT_MOST == CGPU_MAX_INST, "a container can have all weights of a GPU");
_Static_assert(sizeof(struct cgpu_slice) == CGPU_SLICE_ATTRIBUTES * sizeof(u64), "each attribute is one number");

u64 *core_slice_value(struct cgpu_slice *slice, u32 attribute)
{
	return (u64 *)slice + attribute;
}

u64 core_slice_get(const struct cgpu_slice *slice, u32 attribute)
{
	return ((const u64 *)slice)[attribute];
}

int core_slice_parse(const char *text, size_t length, struct cgpu_slice *slice)
{
	size_t from = 0, to;
	u32 i;

	for (i = 0; i < CGPU_SLICE_ATTRIBUTES; i++) {
		const struct core_attribute *attribute = &core_attributes[i];
		u64 *value = core_slice_value(slice, i);

		*value = attribute->preset;
		if (from > length && !attribute->is_required)
			continue;
		for (to = from; to < length && text[to] != ':'; to++)
			;
		if (from > length || core_parse_number(text + from, to - from, CORE_SLICE_DIGITS, value))
			return -EINVAL;
		if (attribute->is_required && *value == 0)
			return -EINVAL;
		from = to + 1;
	}
	return from > length && core_slice_in_bounds(slice) ? 0 : -EINVAL;
}

int core_slice_in_bounds(const struct cgpu_slice *slice)
{
	u32 i;

	for (i = 0; i < CGPU_SLICE_ATTRIBUTES; i++) {
		if (core_slice_get(slice, i) > core_attributes[i].most)
			return 0;
	}
	return 1;
}

int core_slice_same(const struct cgpu_slice *slice, const struct cgpu_slice *other)
{
	return memcmp(slice, other, sizeof(*slice)) == 0;
}

void core_slice_add(struct cgpu_slice *sum, const struct cgpu_slice *part)
{
	u32 i;

	for (i = 0; i < CGPU_SLICE_ATTRIBUTES; i++) {
		u64 *value = core_slice_value(sum, i), other = core_slice_get(part, i);

		if (core_attributes[i].together == CORE_SUM)
			*value += other;
		else if (*value < other)
			*value = other;
	}
}

void core_slice_words(const struct cgpu_slice *slice, struct core_text *out)
{
	u32 i;

	for (i = 0; i < CGPU_SLICE_ATTRIBUTES; i++)
		core_text_format(
			out, " %s=%llu", core_attributes[i].name, (unsigned long long)core_slice_get(slice, i));
}

void core_slice_numbers(const struct cgpu_slice *slice, struct core_text *out)
{
	u32 i;

	for (i = 0; i < CGPU_SLICE_ATTRIBUTES; i++)
		core_text_format(out, " %llu", (unsigned long long)core_slice_get(slice, i));
}
