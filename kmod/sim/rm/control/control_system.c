// SPDX-License-Identifier: Apache-2.0
/* What the driver says of itself. */
#include "control.h"

/* NV_BUILD_BRANCH_VERSION and NV_DISPLAY_DRIVER_TITLE of a driver: this is none of NVIDIA's builds. */
static const char branch[] = "simulated";
static const char title[] = "Simulated driver";

static bool write_text(struct control *control, uint16_t at, const char *text, uint32_t room)
{
	uint64_t address = get64(control->params, at);

	if (address == 0)
		return true;
	return strlen(text) < room && user_write(&control->call->caller, address, text, strlen(text) + 1);
}

/* Without room for the texts it says how much room they take. */
static uint32_t control_build_version(struct control *control)
{
	struct sim *sim = control->call->sim;
	const struct card_layout_NV0000_CTRL_SYSTEM_GET_BUILD_VERSION_PARAMS *at =
		&sim->card_abi->NV0000_CTRL_SYSTEM_GET_BUILD_VERSION_PARAMS;
	uint32_t room = get32(control->params, at->sizeOfStrings);

	put32(control->params, at->changelistNumber, 0);
	put32(control->params, at->officialChangelistNumber, 0);
	if (room == 0) {
		put32(control->params, at->sizeOfStrings, sizeof(sim->version));
		return NV_OK;
	}
	if (!write_text(control, at->pDriverVersionBuffer, sim->version, room) ||
		!write_text(control, at->pVersionBuffer, branch, room) ||
		!write_text(control, at->pTitleBuffer, title, room))
		return NV_ERR_INVALID_PARAM_STRUCT;
	return NV_OK;
}

static uint32_t control_build_version_v2(struct control *control)
{
	struct sim *sim = control->call->sim;
	const struct card_layout_NV0000_CTRL_SYSTEM_GET_BUILD_VERSION_V2_PARAMS *at =
		&sim->card_abi->NV0000_CTRL_SYSTEM_GET_BUILD_VERSION_V2_PARAMS;

	memset(control->params, 0, at->bytes);
	memcpy(control->params + at->driverVersionBuffer, sim->version, strlen(sim->version) + 1);
	memcpy(control->params + at->versionBuffer, branch, sizeof(branch));
	memcpy(control->params + at->titleBuffer, title, sizeof(title));
	return NV_OK;
}

static const struct control_entry entries[] = {
	{ NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION, NV01_ROOT_CLIENT,
		CARD_PARAMS(NV0000_CTRL_SYSTEM_GET_BUILD_VERSION_PARAMS), ANSWER(control_build_version, RIGHTS_NONE) },
	{ NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION_V2, NV01_ROOT_CLIENT,
		CARD_PARAMS(NV0000_CTRL_SYSTEM_GET_BUILD_VERSION_V2_PARAMS),
		ANSWER(control_build_version_v2, RIGHTS_NONE) },
};

const struct control_set controls_system = CONTROL_SET(entries);
