// SPDX-License-Identifier: GPL-2.0
/*
 * Descriptors inside of calls that export and import memory. The driver looks them up by itself, when the caller's other
 * threads may have made something else of the number: it is given the file that the call was judged by. And only
 * containers get at what containers have exported, as nobody sees what others do.
 */
#include <linux/file.h>
#include <linux/fs.h>

#include "km.h"

static bool is_control_file(struct file *file)
{
	const struct inode *inode = file_inode(file);

	return S_ISCHR(inode->i_mode) && imajor(inode) == NV_NVIDIA_MAJOR && iminor(inode) == NV_NVIDIACTL_MINOR &&
		READ_ONCE(file->private_data);
}

void km_target_put(struct km_record *record)
{
	if (record->target)
		fput(record->target);
	record->target = NULL;
}

int km_target_find(struct km_record *record)
{
	struct cgpu_call *call = &record->call;
	struct file *file = call->descriptor < 0 ? NULL : fget((unsigned int)call->descriptor);
	struct km_file *known;

	km_target_put(record);
	call->found = 1;
	call->target = 0;
	if (file && !is_control_file(file)) {
		fput(file);
		file = NULL;
	}
	if (!file)
		return 0;
	known = km_file_take_open(file);
	if (IS_ERR(known)) {
		fput(file);
		return PTR_ERR(known);
	}
	call->target = km_file_own_number(known);
	record->target = file;
	return 0;
}

void km_target_note(const struct km_record *record)
{
	if (record->target)
		km_file_note_export(record->target->private_data);
}

bool km_target_missed(const struct km_record *record)
{
	return record->target && !record->handed;
}

static bool get_file_wants(struct pt_regs *regs)
{
	const struct km_record *record = km_record_current();
	struct km_identity identity;

	if (record && READ_ONCE(record->judged))
		return record->target != NULL;
	/* Our own call of the original. */
	if (record && READ_ONCE(record->looks))
		return false;
	return km_enforce() && km_file_any_exported() && !km_identity_of_current(&identity);
}
NOKPROBE_SYMBOL(get_file_wants);

static void *hand_out(struct km_record *record, s32 fd, u8 control, void **held)
{
	if (!control || fd != record->call.descriptor)
		return NULL;
	record->handed++;
	*held = get_file(record->target);
	return record->target->private_data;
}

/* For a task that is in no container. */
static __nocfi void *look_up(struct km_record *record, s32 fd, u8 control, void **held)
{
	void *(*original)(s32, u8, void **) = (void *)km_probe_get_file.original;
	void *nvfp;

	WRITE_ONCE(record->looks, true);
	nvfp = original(fd, control, held);
	WRITE_ONCE(record->looks, false);
	if (!nvfp || !km_file_exported(nvfp))
		return nvfp;
	/* As nv_put_file_private() does it. */
	fput(*held);
	*held = NULL;
	return NULL;
}

/* nv_get_file_private() */
static void *get_file_private(s32 fd, u8 control, void **held)
{
	struct km_record *own, *record = km_record_current();
	void *nvfp = NULL;

	own = record ? NULL : km_record_begin();
	if (record && record->judged)
		nvfp = hand_out(record, fd, control, held);
	else if (record || own)
		nvfp = look_up(record ? record : own, fd, control, held);
	if (own)
		km_record_end(own);
	km_probe_leave();
	return nvfp;
}

/* Where the driver does not have it nothing is exported or imported in a container. */
struct km_probe km_probe_get_file = {
	.module = "nvidia",
	.symbol = "nv_get_file_private",
	.replacement = get_file_private,
	.wants = get_file_wants,
	.optional = true,
};
