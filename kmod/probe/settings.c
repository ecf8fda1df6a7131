// SPDX-License-Identifier: Apache-2.0
/* Words that change how the next calls are made. */
#include "probe.h"

static bool set_via(struct settings *settings, const char *value)
{
	static const char *const ways[] = { "rm64", "rm21", "heap", "range", "tiled" };
	uint32_t way;

	for (way = VIA_RM64; way <= VIA_TILED; way++) {
		if (strcmp(value, ways[way]) == 0) {
			settings->via = (enum via)way;
			return true;
		}
	}
	return false;
}

bool setting_run(struct probe *probe, const char *name, const char *value)
{
	struct settings *settings = &probe->settings;
	uint64_t number = 0;
	bool is_number = value && parse_number(value, &number);

	if (strcmp(name, "xfer") == 0)
		return settings->wrapped = !value || strcmp(value, "off") != 0, true;
	if (strcmp(name, "via") == 0)
		return value && set_via(settings, value);
	if (strcmp(name, "page") == 0)
		return value && parse_page(value, settings);
	if (strcmp(name, "handles") == 0)
		return settings->own_handles = !value || strcmp(value, "auto") != 0, true;
	if (strcmp(name, "gpu") == 0 && is_number && number < RM_MAX_GPUS)
		return probe->gpu = (uint32_t)number, true;
	if (strcmp(name, "magic") == 0 && is_number && number < 256)
		return settings->magic = (uint32_t)number, true;
	if (strcmp(name, "dir") == 0 && is_number && number < 4)
		return settings->direction = (uint32_t)number, true;
	if (strcmp(name, "expect") == 0 && is_number && number <= UINT32_MAX)
		return probe->expecting = true, probe->expected = (uint32_t)number, true;
	if (strcmp(name, "expect-errno") == 0 && is_number && number < 4096)
		return probe->expecting = true, probe->expected = RM_ERRNO | (uint32_t)number, true;
	return false;
}
