// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* From the layout of one version of the core to that of another. */
#include "state/state.h"

u32 cgpu_state_version(void)
{
	return CORE_VERSION;
}

/* Layouts that differ from this one in nothing but their number. */
static int same_layout(u32 version)
{
#ifdef CORE_CONVERTS_FROM
	if (version == CORE_CONVERTS_FROM)
		return 1;
#endif
	return version == CORE_VERSION;
}

enum cgpu_state_kind cgpu_state_converts(const struct cgpu_state *from)
{
	if (from->magic != CORE_MAGIC || !same_layout(from->version) || from->bytes != sizeof(*from))
		return CGPU_STATE_FOREIGN;
	return from->version == CORE_VERSION ? CGPU_STATE_OWN : CGPU_STATE_CONVERTS;
}

int cgpu_state_convert(struct cgpu_state *to, const struct cgpu_state *from)
{
	if (cgpu_state_converts(from) == CGPU_STATE_FOREIGN)
		return -EPROTO;
	memcpy(to, from, sizeof(*to));
	to->version = CORE_VERSION;
	return 0;
}

int cgpu_state_take_over(struct cgpu_state *to, const struct cgpu_state *from)
{
	u32 used;

	if (cgpu_state_converts(from) == CGPU_STATE_FOREIGN)
		return -EPROTO;
	used = core_objects_used(from);
	/* Links are made anew, and what nobody uses is there already. */
	memcpy(to, from, offsetof(struct cgpu_state, client_hash));
	memcpy(to->gpu, from->gpu, sizeof(to->gpu));
	memcpy(to->container, from->container, sizeof(to->container));
	memcpy(to->client, from->client, sizeof(to->client));
	memcpy(to->object, from->object, used * sizeof(to->object[0]));
	memcpy(to->memory, from->memory, used * sizeof(to->memory[0]));
	to->version = CORE_VERSION;
	return core_recover(to, used);
}
