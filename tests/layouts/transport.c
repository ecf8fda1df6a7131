// SPDX-License-Identifier: Apache-2.0
/* Open files, and the steps of a call: ask the core, copy nothing, run it on the cards, let the core settle it. */
#include <stdio.h>
#include <stdlib.h>

#include "transport.h"

#define UNDO_BYTES 64u

int transport_add_cards(struct transport *transport)
{
	uint32_t i;
	int result = 0;

	for (i = 0; i < cards_count(transport->sim) && result == 0; i++) {
		struct card_facts card = cards_facts(transport->sim, i);
		struct cgpu_gpu_facts facts = {
			.index = i, .minor = i, .gpu_id = card.gpu_id, .device_instance = i, .memtotal = card.bytes
		};

		snprintf(facts.uuid, sizeof(facts.uuid), "%s", card.uuid);
		snprintf(facts.name, sizeof(facts.name), "%s", card.name);
		result = cgpu_gpu_add(&transport->core, &facts);
	}
	return result;
}

const struct file *transport_find(const struct transport *transport, uint64_t id)
{
	const struct file *file = transport->files;

	while (file && file->id != id)
		file = file->next;
	return file;
}

const struct file *transport_open(struct transport *transport, enum device_node node, uint32_t card)
{
	struct file *file = calloc(1, sizeof(*file));

	if (!file)
		return NULL;
	*file = (struct file){ .next = transport->files, .node = node, .card = card };
	file->open = cards_open(transport->sim, node == NODE_CARD ? (int)card : -1, &file->id);
	if (!file->open) {
		free(file);
		return NULL;
	}
	transport->files = file;
	return file;
}

/* A file that is closed and that nothing keeps. */
static struct file **ended(struct transport *transport)
{
	struct file **at = &transport->files;

	while (*at && (!(*at)->closed || cards_keep(transport->sim, (*at)->id)))
		at = &(*at)->next;
	return at;
}

void transport_close(struct transport *transport, uint64_t id)
{
	struct file *file = transport->files, **at;

	while (file && file->id != id)
		file = file->next;
	if (file)
		file->closed = true;
	for (at = ended(transport); *at; at = ended(transport)) {
		file = *at;
		*at = file->next;
		cards_close(transport->sim, file->open);
		cgpu_file_closed(&transport->core, file->id);
		free(file);
	}
}

void transport_forget_files(struct transport *transport)
{
	struct file *next;

	for (; transport->files; transport->files = next) {
		next = transport->files->next;
		free(transport->files);
	}
}

struct cgpu_call transport_call(const struct transport *transport, const struct file *file,
	const struct cgpu_container_info *slice, const struct driver_call *given)
{
	static const enum cgpu_device devices[] = { CGPU_DEVICE_CTL, CGPU_DEVICE_GPU };

	return (struct cgpu_call){
		.slot = slice->slot,
		.generation = slice->generation,
		.device = devices[file->node],
		.gpu = file->card,
		.tgid = (s32)given->process,
		.file = file->id,
		.nr = given->nr,
		.bytes = given->bytes,
		.top = given->top,
		.finds_files = transport->finds_files,
	};
}

/* A descriptor in a structure is the number of an open file. */
static void find_target(const struct transport *transport, struct cgpu_call *call)
{
	const struct file *file = call->descriptor > 0 ? transport_find(transport, (uint64_t)call->descriptor) : NULL;

	call->found = 1;
	call->target = file && file->node == NODE_CTL ? file->id : 0;
}

/* In this process nested buffers need not be copied. 0: one of them is not the caller's. */
static int find_buffers(const struct driver_call *given, struct cgpu_call *call)
{
	u32 i;

	for (i = 0; i < call->segments; i++) {
		struct cgpu_segment *segment = &call->segment[i];

		if (!call_reaches(given, segment->address, segment->bytes))
			return 0;
		segment->data = (u8 *)(uintptr_t)segment->address;
	}
	return 1;
}

enum cgpu_verdict transport_judge(struct transport *transport, const struct driver_call *given, struct cgpu_call *call)
{
	u32 plans, needs;

	for (plans = 0; plans < CGPU_PLANS; plans++) {
		needs = cgpu_call_plan(&transport->core, call);
		if (!find_buffers(given, call)) {
			call->error = EFAULT;
			return CGPU_REFUSE;
		}
		if (needs & CGPU_NEEDS_FILE)
			find_target(transport, call);
	}
	return cgpu_call_begin(&transport->core, call);
}

void transport_take_back(struct transport *transport, const struct file *file, struct cgpu_call *done)
{
	u8 top[UNDO_BYTES];
	struct cgpu_call undo = { .top = top };
	struct driver_call call = { .process = (u32)done->tgid };

	while (cgpu_call_undo(&transport->core, done, &undo) == 1) {
		if (transport_judge(transport, &call, &undo) != CGPU_EXECUTE)
			return;
		call.nr = undo.nr;
		call.bytes = undo.bytes;
		call.top = undo.top;
		cgpu_call_end(&transport->core, &undo, cards_call(transport->sim, file->open, &call));
	}
}

void transport_settle(struct transport *transport, const struct file *file, struct cgpu_call *call, int result)
{
	/* The driver gave more than there was room for. */
	if (cgpu_call_end(&transport->core, call, result) == 1)
		transport_take_back(transport, file, call);
}
