// SPDX-License-Identifier: GPL-2.0-only
/*
 * Descriptors inside of calls that export and import memory. The driver looks them up by itself, when another thread of the
 * caller may have put another file under the number: it is given the file that the call was judged by. Only containers can
 * import what containers have exported, as imports of other tasks are not seen.
 */
#include <linux/file.h>
#include <linux/fs.h>

#include "probes/files.h"
#include "probes/task_call.h"

bool km_is_driver_file(struct file *file)
{
	const struct inode *inode = file_inode(file);

	return S_ISCHR(inode->i_mode) && imajor(inode) == NV_NVIDIA_MAJOR && READ_ONCE(file->private_data);
}

bool km_is_control_file(struct file *file)
{
	return km_is_driver_file(file) && iminor(file_inode(file)) == NV_NVIDIACTL_MINOR;
}

void km_target_put(struct km_task_call *task_call)
{
	if (task_call->target)
		fput(task_call->target);
	task_call->target = NULL;
}

int km_target_find(struct km_task_call *task_call)
{
	struct cgpu_call *call = &task_call->call;
	struct file *file = call->descriptor < 0 ? NULL : fget((unsigned int)call->descriptor);
	struct km_file *known;

	km_target_put(task_call);
	call->found = 1;
	call->target = 0;
	if (file && !km_is_control_file(file)) {
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
	call->target = known->number;
	task_call->target = file;
	return 0;
}

static bool get_file_wants(struct pt_regs *regs)
{
	const struct km_task_call *task_call = km_task_call_current();
	struct km_identity identity;

	if (task_call && READ_ONCE(task_call->readied))
		return true;
	if (task_call && READ_ONCE(task_call->judged))
		return task_call->target != NULL;
	/* Our own call of the original. */
	if (task_call && READ_ONCE(task_call->looks_up))
		return false;
	return km_enforce && km_file_any_exported() && !km_identity_of_current(&identity);
}
NOKPROBE_SYMBOL(get_file_wants);

static void *hand_out_file(struct file *file, u8 control, void **held)
{
	if (!control != !km_is_control_file(file))
		return NULL;
	*held = get_file(file);
	return file->private_data;
}

static void *hand_out(struct km_task_call *task_call, s32 fd, u8 control, void **held)
{
	if (fd != task_call->call.descriptor)
		return NULL;
	task_call->handed++;
	return hand_out_file(task_call->target, control, held);
}

KM_EXTERNAL(get_file, void *(s32, u8, void **));

/* For a task that is in no container. */
static void *look_up(struct km_task_call *task_call, s32 fd, u8 control, void **held)
{
	void *nvfp;

	WRITE_ONCE(task_call->looks_up, true);
	nvfp = km_call(get_file)(fd, control, held);
	WRITE_ONCE(task_call->looks_up, false);
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
	struct km_task_call *own, *task_call = km_task_call_current();
	void *nvfp = NULL;

	own = task_call ? NULL : km_task_call_begin();
	if (task_call && task_call->readied)
		nvfp = hand_out_file(task_call->readied, control, held);
	else if (task_call && task_call->judged)
		nvfp = hand_out(task_call, fd, control, held);
	else if (task_call || own)
		nvfp = look_up(task_call ? task_call : own, fd, control, held);
	if (own)
		km_task_call_end(own);
	km_probe_leave();
	return nvfp;
}

/* Where the driver does not have it nothing is exported or imported in a container. */
KM_PROBE_AROUND(get_file, "nvidia", "nv_get_file_private", get_file_private, get_file_wants, .optional = true);
