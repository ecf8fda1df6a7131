// SPDX-License-Identifier: GPL-2.0-only
/*
 * The doorbells of the card's channels (kmod/sim/gpu/doorbell.h). On a real card they are a mapped page, which no function of
 * the driver sees written: this goes past all of them.
 */
#include <linux/fs.h>
#include <linux/uaccess.h>

#include "doorbell.h"
#include "driver.h"

ssize_t nvidia_write(struct file *file, const char __user *data, size_t size, loff_t *at)
{
	struct nv_linux_file_private *nvlfp = file->private_data;
	struct doorbell record;

	if (size != sizeof(record))
		return -EINVAL;
	if (copy_from_user(&record, data, sizeof(record)))
		return -EFAULT;
	return doorbell_write(nvidia_card, nvlfp->nvfp.file, &record, sizeof(record));
}

ssize_t nvidia_read(struct file *file, char __user *out, size_t size, loff_t *at)
{
	struct nv_linux_file_private *nvlfp = file->private_data;
	struct doorbell_figures figures;
	int result = doorbell_read(nvidia_card, nvlfp->nvfp.file, &figures, min(size, sizeof(figures)));

	if (result > 0 && copy_to_user(out, &figures, (size_t)result))
		return -EFAULT;
	return result;
}
