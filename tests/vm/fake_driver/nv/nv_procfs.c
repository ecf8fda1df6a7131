// SPDX-License-Identifier: GPL-2.0
/* /proc/driver/nvidia (kernel-open/nvidia/nv-procfs.c), and the card's own view of itself for tests. */
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/utsname.h>

#include "driver.h"

#define INFORMATION_ROOM 1024

struct totals {
	u32 clients;
	u32 objects;
	u32 files;
};

static int show_version(struct seq_file *s, void *unused)
{
	seq_printf(s, "NVRM version: NVIDIA UNIX Open Kernel Module for %s  %s  Release Build  (fake driver)\n",
		init_utsname()->machine, nvidia_version);
	seq_printf(s, "GCC version:  gcc version %s\n", __VERSION__);
	return 0;
}

static int show_information(struct seq_file *s, void *unused)
{
	char *text = kzalloc(INFORMATION_ROOM, GFP_KERNEL);

	if (!text)
		return -ENOMEM;
	card_information(nvidia_card, (u32)(uintptr_t)s->private, text, INFORMATION_ROOM);
	seq_puts(s, text);
	kfree(text);
	return 0;
}

/* Of one card, or of all with SIM_NO_CARD; the lock is held. */
static void count(const struct sim *sim, u32 card, struct totals *totals)
{
	const struct open_file *file;
	struct client *client;

	for (client = sim->clients; client; client = client->next) {
		struct object *at = client->root;
		u32 before = totals->objects;

		for (; at; at = object_next(client->root, at))
			totals->objects += card == SIM_NO_CARD || at->card == card;
		totals->clients += totals->objects > before;
	}
	for (file = sim->files; file; file = file->next)
		totals->files += card == SIM_NO_CARD || file->card == card;
}

static int show_card(struct seq_file *s, void *unused)
{
	struct sim *sim = nvidia_card;
	struct totals all = { 0 };
	u32 i;

	mutex_lock(&sim->lock);
	for (i = 0; i < sim->card_count; i++) {
		struct totals one = { 0 };

		count(sim, i, &one);
		seq_printf(s,
			"card=%u total=%llu used=%llu clients=%u objects=%u files=%u kernel_opens=%d peak=%llu kernel_opened=%d\n",
			i, sim->cards[i].bytes, sim->cards[i].used, one.clients, one.objects, one.files,
			atomic_read(&nv_device(i)->kernel_opens), sim->cards[i].peak,
			atomic_read(&nv_device(i)->kernel_opened));
	}
	count(sim, SIM_NO_CARD, &all);
	mutex_unlock(&sim->lock);
	seq_printf(s, "all clients=%u objects=%u files=%u\n", all.clients, all.objects, all.files);
	return 0;
}

/*
 * As NVIDIA's files are (nv-procfs-utils.h): read by seq_read(), which a kernel module's kernel_read() cannot call.
 * proc_create_single() would make files that it can.
 */
#define FILE_OF(name)                                                   \
	static int open_##name(struct inode *inode, struct file *file)  \
	{                                                               \
		return single_open(file, show_##name, pde_data(inode)); \
	}                                                               \
	static const struct proc_ops name##_ops = {                     \
		.proc_open = open_##name,                               \
		.proc_read = seq_read,                                  \
		.proc_lseek = seq_lseek,                                \
		.proc_release = single_release,                         \
	}

FILE_OF(version);
FILE_OF(information);
FILE_OF(card);

static bool make_gpu(struct proc_dir_entry *gpus, u32 card)
{
	struct proc_dir_entry *gpu;
	char name[32];

	snprintf(name, sizeof(name), "%04x:%02x:00.0", 0, nv_device(card)->pci_info.bus);
	gpu = proc_mkdir(name, gpus);
	return gpu && proc_create_data("information", 0444, gpu, &information_ops, (void *)(uintptr_t)card);
}

int nv_procfs_init(void)
{
	struct proc_dir_entry *root = proc_mkdir("driver/nvidia", NULL), *gpus;
	u32 i;

	if (!root)
		return -ENOMEM;
	if (!proc_create("version", 0444, root, &version_ops) || !proc_create("opencgpu_card", 0444, root, &card_ops))
		goto undo;
	gpus = proc_mkdir("gpus", root);
	if (!gpus)
		goto undo;
	for (i = 0; i < nvidia_card->card_count; i++) {
		if (!make_gpu(gpus, i))
			goto undo;
	}
	return 0;
undo:
	nv_procfs_exit();
	return -ENOMEM;
}

void nv_procfs_exit(void)
{
	remove_proc_subtree("driver/nvidia", NULL);
}
