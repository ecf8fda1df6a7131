// SPDX-License-Identifier: GPL-2.0-only
/*
 * /proc/driver/nvidia, as NVIDIA's driver makes it (kernel-open/nvidia/nv-procfs.c), with one more file, opencgpu_card:
 * tests read in it what the simulated cards have given out.
 */
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/utsname.h>

#include "driver.h"

#define INFORMATION_ROOM 1024

struct totals {
	u32 clients; /* with at least one object */
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

/* Adds what clients have of one card, or of all cards with SIM_NO_CARD. The caller holds sim->lock. */
static void add_totals(const struct sim *sim, u32 card, struct totals *totals)
{
	const struct open_file *file;
	struct client *client;

	for (client = sim->clients; client; client = client->next) {
		struct object *object = client->root;
		u32 objects_before = totals->objects;

		for (; object; object = object_next(client->root, object))
			totals->objects += card == SIM_NO_CARD || object->card == card;
		totals->clients += totals->objects > objects_before;
	}
	for (file = sim->files; file; file = file->next)
		totals->files += card == SIM_NO_CARD || file->card == card;
}

static int show_card(struct seq_file *s, void *unused)
{
	struct sim *sim = nvidia_card;
	struct totals all = { 0 };
	u32 card;

	mutex_lock(&sim->lock);
	for (card = 0; card < sim->card_count; card++) {
		struct totals one = { 0 };

		add_totals(sim, card, &one);
		seq_printf(s,
			"card=%u total=%llu used=%llu clients=%u objects=%u files=%u kernel_opens=%d peak=%llu kernel_opened=%d\n",
			card, sim->cards[card].bytes, sim->cards[card].used, one.clients, one.objects, one.files,
			atomic_read(&nv_device(card)->kernel_opens), sim->cards[card].peak,
			atomic_read(&nv_device(card)->kernel_opened));
	}
	add_totals(sim, SIM_NO_CARD, &all);
	mutex_unlock(&sim->lock);
	seq_printf(s, "all clients=%u objects=%u files=%u\n", all.clients, all.objects, all.files);
	return 0;
}

/*
 * As nv-procfs-utils.h does: proc_read is seq_read(), so that kernel_read() in a kernel module fails on these files as
 * on NVIDIA's. proc_create_single() would make files with proc_read_iter, which kernel_read() can read.
 */
#define DEFINE_PROC_FILE(name)                                          \
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

DEFINE_PROC_FILE(version);
DEFINE_PROC_FILE(information);
DEFINE_PROC_FILE(card);

static bool make_gpu_folder(struct proc_dir_entry *gpus, u32 card)
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
	u32 card;

	if (!root)
		return -ENOMEM;
	if (!proc_create("version", 0444, root, &version_ops) || !proc_create("opencgpu_card", 0444, root, &card_ops))
		goto fail;
	gpus = proc_mkdir("gpus", root);
	if (!gpus)
		goto fail;
	for (card = 0; card < nvidia_card->card_count; card++) {
		if (!make_gpu_folder(gpus, card))
			goto fail;
	}
	return 0;
fail:
	nv_procfs_exit();
	return -ENOMEM;
}

void nv_procfs_exit(void)
{
	remove_proc_subtree("driver/nvidia", NULL);
}
