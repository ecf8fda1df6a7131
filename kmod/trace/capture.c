// SPDX-License-Identifier: Apache-2.0
/*
 * What is read of a call's arguments: only structures that the tables know, in the size that they have there, and the
 * lists of memory sizes. Everything else stays where it is.
 */
#include <linux/ioctl.h>

#include "fields.h"
#include "recorder.h"

uint64_t field_value(const uint8_t *data, const struct nv_field *field)
{
	uint64_t value = 0;

	memcpy(&value, data + field->at, field->bytes);
	return value;
}

static const struct nv_form *form_of(
	const struct version *version, const struct nv_form_of *forms, unsigned int count, uint32_t key)
{
	unsigned int i;

	for (i = 0; i < count; i++) {
		if (forms[i].key == key)
			return version_form(version, forms[i].form);
	}
	return NULL;
}

static bool is_uvm(enum node_kind kind)
{
	return kind == NODE_UVM || kind == NODE_UVM_TOOLS;
}

static const struct nv_call *call_of(enum node_kind kind, uint32_t nr)
{
	bool uvm = is_uvm(kind);
	const struct nv_call *calls = uvm ? nv_uvm_calls : nv_escape_calls;
	unsigned int count = uvm ? nv_uvm_calls_count : nv_escape_calls_count, i;

	for (i = 0; i < count && kind != NODE_MODESET; i++) {
		if (calls[i].nr == nr)
			return &calls[i];
	}
	return NULL;
}

/* Whether the parameters have another encoding, which the tables lack. */
static bool is_serialized(const uint8_t *top, uint16_t flags_at, uint32_t bit)
{
	return flags_at != NV_ABI_ABSENT && (get32(top, flags_at) & bit);
}

static void find_alloc_params(struct capture *c, const struct version *version, const struct nv_abi *abi)
{
	const struct nv_layout_NVOS21_PARAMETERS *narrow = &abi->NVOS21_PARAMETERS;

	/* Both forms begin alike. */
	if (c->size == abi->NVOS64_PARAMETERS.bytes && c->size != narrow->bytes &&
		is_serialized(c->top, abi->NVOS64_PARAMETERS.flags, NVOS64_FLAGS_FINN_SERIALIZED))
		return;
	c->nested = form_of(version, nv_class_forms, nv_class_forms_count, get32(c->top, narrow->hClass));
	c->nested_address = get64(c->top, narrow->pAllocParms);
}

static void find_control_params(struct capture *c, const struct version *version, const struct nv_abi *abi)
{
	const struct nv_layout_NVOS54_PARAMETERS *at = &abi->NVOS54_PARAMETERS;

	if (is_serialized(c->top, at->flags, NVOS54_FLAGS_FINN_SERIALIZED))
		return;
	c->nested = form_of(version, nv_control_forms, nv_control_forms_count, get32(c->top, at->cmd));
	if (c->nested && get32(c->top, at->paramsSize) != c->nested->bytes)
		c->nested = NULL;
	c->nested_address = get64(c->top, at->params);
}

/* The indices and values of memory sizes: behind a pointer in the older form, inside of the newer one. */
static void find_list(struct capture *c, const struct nv_abi *abi)
{
	const struct nv_layout_NV2080_CTRL_FB_GET_INFO_V2_PARAMS *v2 = &abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS;
	const struct nv_layout_NV2080_CTRL_FB_GET_INFO_PARAMS *v1 = &abi->NV2080_CTRL_FB_GET_INFO_PARAMS;
	uint32_t command = get32(c->top, abi->NVOS54_PARAMETERS.cmd), count = 0;

	if (command == NV2080_CTRL_CMD_FB_GET_INFO) {
		c->list_address = get64(c->params, v1->fbInfoList);
		count = c->list_address ? get32(c->params, v1->fbInfoListSize) : 0;
	} else if (command == NV2080_CTRL_CMD_FB_GET_INFO_V2) {
		c->list_at = v2->fbInfoList;
		count = get32(c->params, v2->fbInfoListSize);
	}
	/* The driver turns one form into the other, so their lists are equally long. */
	if (count <= LIST_MAX && count <= (uint32_t)(v2->bytes - v2->fbInfoList) / LIST_ENTRY)
		c->list_count = count;
}

static bool read_list(struct capture *c, const struct task *task)
{
	size_t bytes = (size_t)c->list_count * LIST_ENTRY;

	if (c->list_address)
		return memory_read(task, c->list_address, c->list, bytes);
	if (c->list_count)
		memcpy(c->list, c->params + c->list_at, bytes);
	return true;
}

static void read_nested(struct capture *c, const struct version *version, const struct task *task)
{
	const struct nv_abi *abi = version->abi;

	if (abi && c->nr == NV_ESC_RM_ALLOC)
		find_alloc_params(c, version, abi);
	else if (abi && c->nr == NV_ESC_RM_CONTROL)
		find_control_params(c, version, abi);
	if (!c->nested_address || (c->nested && c->nested->bytes > CAPTURE_BYTES))
		c->nested = NULL;
	if (c->nested && !memory_read(task, c->nested_address, c->params, c->nested->bytes)) {
		c->nested = NULL;
		c->failed = true;
	}
	if (c->nested && c->nr == NV_ESC_RM_CONTROL)
		find_list(c, abi);
	if (c->list_count && !read_list(c, task)) {
		c->list_count = 0;
		c->failed = true;
	}
	if (abi && c->nr == NV_ESC_RM_VID_HEAP_CONTROL)
		c->arm = form_of(
			version, nv_heap_forms, nv_heap_forms_count, get32(c->top, abi->NVOS32_PARAMETERS.function));
}

/* Takes number, size and place of the structure out of the transfer wrapper. */
static bool open_wrapper(struct capture *c, const struct task *task)
{
	const struct nv_layout_nv_ioctl_xfer_t *at = &nv_abi_layouts[0].nv_ioctl_xfer_t;
	uint8_t wrapper[64];

	if (c->size != at->bytes || at->bytes > sizeof(wrapper) || !memory_read(task, c->address, wrapper, at->bytes))
		return false;
	c->nr = get32(wrapper, at->cmd);
	c->size = get32(wrapper, at->size);
	c->address = get64(wrapper, at->ptr);
	c->wrapped = true;
	return true;
}

void capture_read(struct capture *c, const struct version *version, const struct task *task, enum node_kind kind,
	uint64_t command, uint64_t address)
{
	bool uvm = is_uvm(kind);
	const struct nv_call *call;

	memset(c, 0, offsetof(struct capture, top));
	c->nr = uvm ? (uint32_t)command : (uint32_t)_IOC_NR(command);
	c->size = uvm ? 0 : (uint32_t)_IOC_SIZE(command);
	c->address = address;
	if ((kind == NODE_CTL || kind == NODE_CARD) && c->nr == NV_ESC_IOCTL_XFER_CMD && !open_wrapper(c, task))
		c->failed = true;
	call = call_of(kind, c->nr);
	c->known = call != NULL;
	c->name = call ? call->name : "ioctl";
	c->form = call ? version_form(version, call->form) : NULL;
	if (call && call->other != NV_FORM_NONE && (!c->form || c->form->bytes != c->size))
		c->form = version_form(version, call->other);
	/* The numbers of UVM's calls carry no size. */
	if (c->form && uvm)
		c->size = c->form->bytes;
	if (!c->form || c->form->bytes != c->size || c->size > CAPTURE_BYTES) {
		c->form = NULL;
		return;
	}
	if (!memory_read(task, c->address, c->top, c->size)) {
		c->form = NULL;
		c->failed = true;
		return;
	}
	if (!uvm)
		read_nested(c, version, task);
}

bool capture_again(const struct capture *before, struct capture *after, const struct task *task)
{
	memcpy(after, before, offsetof(struct capture, top));
	if (before->form && !memory_read(task, before->address, after->top, before->form->bytes))
		return false;
	if (before->nested && !memory_read(task, before->nested_address, after->params, before->nested->bytes))
		return false;
	return !before->list_count || read_list(after, task);
}
