// SPDX-License-Identifier: Apache-2.0
/* One driver call as a line: what was asked, and what has changed when it came back. */
#include <inttypes.h>

#include "recorder.h"

static void put_field(struct recorder *r, const struct task *task, const struct nv_field *field, uint64_t value)
{
	struct line *line = &r->output.line;
	const struct slot *slot;

	if (field->kind == NV_KIND_POINTER) {
		if (value)
			line_true(line, field->name);
		else
			line_null(line, field->name);
	} else if (field->kind == NV_KIND_FD) {
		slot = slot_find(task->table, (int)value);
		line_number(line, field->name, slot ? slot->file->number : 0);
	} else {
		line_number(line, field->name, value);
	}
}

static void put_in(struct recorder *r, const struct task *task, const struct nv_form *form, const uint8_t *data)
{
	unsigned int i;

	for (i = 0; form && i < form->count; i++) {
		if (form->fields[i].kind != NV_KIND_STATUS)
			put_field(r, task, &form->fields[i], field_value(data, &form->fields[i]));
	}
}

/* A status is always written: its value before the call means nothing. */
static void put_out(struct recorder *r, const struct nv_form *form, const uint8_t *before, const uint8_t *after)
{
	unsigned int i;

	for (i = 0; form && i < form->count; i++) {
		const struct nv_field *field = &form->fields[i];
		uint64_t value = field_value(after, field);

		if (field->kind == NV_KIND_POINTER || field->kind == NV_KIND_FD)
			continue;
		if (field->kind == NV_KIND_STATUS || value != field_value(before, field))
			line_number(&r->output.line, field->name, value);
	}
}

static void put_list(struct line *line, const char *name, const struct capture *c, size_t at)
{
	uint32_t i, value;

	line_open(line, name, '[');
	for (i = 0; i < c->list_count; i++) {
		memcpy(&value, c->list + (size_t)i * LIST_ENTRY + at, sizeof(value));
		line_number(line, NULL, value);
	}
	line_close(line, ']');
}

static void put_params(
	struct recorder *r, const struct task *task, const struct capture *before, const struct capture *after)
{
	struct line *line = &r->output.line;

	line_open(line, "params", '{');
	line_text(line, "form", before->nested->name);
	line_open(line, "in", '{');
	put_in(r, task, before->nested, before->params);
	line_close(line, '}');
	if (after) {
		line_open(line, "out", '{');
		put_out(r, before->nested, before->params, after->params);
		line_close(line, '}');
	}
	if (before->list_count) {
		put_list(line, "asked", before, 0);
		if (after)
			put_list(line, "told", after, LIST_ENTRY / 2);
	}
	line_close(line, '}');
}

static void put_structures(
	struct recorder *r, const struct task *task, const struct capture *before, const struct capture *after)
{
	struct line *line = &r->output.line;

	line_text(line, "form", before->form->name);
	line_open(line, "in", '{');
	put_in(r, task, before->form, before->top);
	put_in(r, task, before->arm, before->top);
	line_close(line, '}');
	if (after) {
		line_open(line, "out", '{');
		put_out(r, before->form, before->top, after->top);
		put_out(r, before->arm, before->top, after->top);
		line_close(line, '}');
	}
	if (before->nested)
		put_params(r, task, before, after);
}

static void put_status(struct line *line, const struct nv_form *form, const uint8_t *data)
{
	unsigned int i;

	for (i = 0; form && i < form->count; i++) {
		if (form->fields[i].kind == NV_KIND_STATUS)
			line_number(line, "status", field_value(data, &form->fields[i]));
	}
}

void ioctl_event(struct recorder *r, struct task *task, const int64_t *result)
{
	const struct pending *pending = &task->pending;
	const struct capture *before = pending->capture, *after = NULL;
	const char *abi = abi_name(pending->arch, pending->number);
	struct line *line;

	/* The driver copies back after an error too. */
	if (result && capture_again(before, &r->scratch, task))
		after = &r->scratch;
	line = line_begin(&r->output, task, before->name);
	line_number(line, "nr", before->nr);
	line_number(line, "file", pending->file_number);
	line_signed(line, "fd", (int)pending->args[0]);
	line_number(line, "size", before->size);
	line_number(line, "took", clock_now() - pending->start);
	if (abi)
		line_text(line, "abi", abi);
	if (before->wrapped)
		line_true(line, "xfer");
	if (before->failed || (result && !after))
		line_true(line, "unread");
	if (before->form)
		put_structures(r, task, before, after);
	if (after)
		put_status(line, before->form, after->top);
	if (result)
		line_signed(line, "result", *result);
	else
		line_null(line, "result");
	line_end(&r->output);
}
