// SPDX-License-Identifier: Apache-2.0
/* Controls of a client about its own objects, and of the address spaces that it makes known to others. */
#include "control.h"

/* Where memory lies for who maps it (client_resource.c, cliresCtrlCmdClientGetAddrSpaceType). */
static uint32_t kind_of(const struct object *object)
{
	if (object->class_id == NV01_MEMORY_LOCAL_USER)
		return NV0000_CTRL_CMD_CLIENT_GET_ADDR_SPACE_TYPE_VIDMEM;
	if (class_is_memory_request(object->class_id) || object->class_id == NV01_MEMORY_SYSTEM_OS_DESCRIPTOR)
		return NV0000_CTRL_CMD_CLIENT_GET_ADDR_SPACE_TYPE_SYSMEM;
	return NV0000_CTRL_CMD_CLIENT_GET_ADDR_SPACE_TYPE_REGMEM;
}

static uint32_t do_address_type(struct control *control, struct object *root)
{
	struct sim *sim = control->call->sim;
	const struct card_layout_NV0000_CTRL_CLIENT_GET_ADDR_SPACE_TYPE_PARAMS *at =
		&sim->card_abi->NV0000_CTRL_CLIENT_GET_ADDR_SPACE_TYPE_PARAMS;
	const struct object *object = object_find(sim, root->client, get32(control->params, at->hObject));

	if (!object)
		return NV_ERR_OBJECT_NOT_FOUND;
	put32(control->params, at->addrSpaceType, kind_of(object));
	return NV_OK;
}

static uint32_t do_share_policy(struct control *control, struct object *root)
{
	struct sim *sim = control->call->sim;
	const struct nv_layout_NV0000_CTRL_CLIENT_SET_INHERITED_SHARE_POLICY_PARAMS *at =
		&sim->abi->NV0000_CTRL_CLIENT_SET_INHERITED_SHARE_POLICY_PARAMS;
	const uint8_t *params = control->params;

	return share_root(sim, root, get16(params, at->sharePolicy_type), params[at->sharePolicy_action],
		get32(params, at->sharePolicy_target), get32(params, at->sharePolicy_accessMask));
}

static uint32_t control_subdevices(struct control *control)
{
	put32(control->params, control->call->sim->card_abi->NV0080_CTRL_GPU_GET_NUM_SUBDEVICES_PARAMS.numSubDevices,
		1);
	return NV_OK;
}

/* No other device reads the card's memory here, so a token of 0 is as good as any. */
static uint32_t do_register_space(struct control *control, struct object *object)
{
	struct sim *sim = control->call->sim;
	const struct card_layout_NV503C_CTRL_REGISTER_VA_SPACE_PARAMS *at =
		&sim->card_abi->NV503C_CTRL_REGISTER_VA_SPACE_PARAMS;
	const struct object *va_space = object_find(sim, object->client, get32(control->params, at->hVASpace));

	if (!va_space || va_space->class_id != FERMI_VASPACE_A)
		return NV_ERR_INVALID_OBJECT_HANDLE;
	put32(control->params, at->vaSpaceToken, 0);
	return NV_OK;
}

/* Nor does anybody ask for the memory that is made known. */
static uint32_t do_register_memory(struct control *control, struct object *object)
{
	struct sim *sim = control->call->sim;
	const struct card_layout_NV503C_CTRL_REGISTER_VIDMEM_PARAMS *at =
		&sim->card_abi->NV503C_CTRL_REGISTER_VIDMEM_PARAMS;
	const struct object *memory = object_find(sim, object->client, get32(control->params, at->hMemory));

	return memory && memory->memory ? NV_OK : NV_ERR_INVALID_OBJECT_HANDLE;
}

static uint32_t control_unregister(struct control *control)
{
	(void)control;
	return NV_OK;
}

static const struct control_entry entries[] = {
	{ NV0000_CTRL_CMD_CLIENT_GET_ADDR_SPACE_TYPE, NV01_ROOT_CLIENT,
		CARD_PARAMS(NV0000_CTRL_CLIENT_GET_ADDR_SPACE_TYPE_PARAMS),
		OBJECT_CONTROL(do_address_type, RIGHTS_NONE) },
	{ NV0000_CTRL_CMD_CLIENT_SET_INHERITED_SHARE_POLICY, NV01_ROOT_CLIENT,
		NV_PARAMS(NV0000_CTRL_CLIENT_SET_INHERITED_SHARE_POLICY_PARAMS),
		OBJECT_CONTROL(do_share_policy, RIGHTS_NONE) },
	{ NV0080_CTRL_CMD_GPU_GET_NUM_SUBDEVICES, NV01_DEVICE_0, CARD_PARAMS(NV0080_CTRL_GPU_GET_NUM_SUBDEVICES_PARAMS),
		ANSWER(control_subdevices, RIGHTS_NONE) },
	{ NV503C_CTRL_CMD_REGISTER_VA_SPACE, NV50_THIRD_PARTY_P2P, CARD_PARAMS(NV503C_CTRL_REGISTER_VA_SPACE_PARAMS),
		OBJECT_CONTROL(do_register_space, RIGHTS_NONE) },
	{ NV503C_CTRL_CMD_UNREGISTER_VA_SPACE, NV50_THIRD_PARTY_P2P,
		CARD_PARAMS(NV503C_CTRL_UNREGISTER_VA_SPACE_PARAMS), ANSWER(control_unregister, RIGHTS_NONE) },
	{ NV503C_CTRL_CMD_REGISTER_VIDMEM, NV50_THIRD_PARTY_P2P, CARD_PARAMS(NV503C_CTRL_REGISTER_VIDMEM_PARAMS),
		OBJECT_CONTROL(do_register_memory, RIGHTS_NONE) },
	{ NV503C_CTRL_CMD_UNREGISTER_VIDMEM, NV50_THIRD_PARTY_P2P, CARD_PARAMS(NV503C_CTRL_UNREGISTER_VIDMEM_PARAMS),
		ANSWER(control_unregister, RIGHTS_NONE) },
};

const struct control_set controls_client = CONTROL_SET(entries);
