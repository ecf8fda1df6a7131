// SPDX-License-Identifier: Apache-2.0
/* The mounted files: nvidiactl, nvidia-uvm, nvidia0…, driver/version, driver/gpus/N/information, and mig, lost and config beside that. */
#define _GNU_SOURCE
#define FUSE_USE_VERSION 312
#include <errno.h>
#include <fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sim.h"
#include "uvm.h"

/* A day: nothing here changes while the server runs. */
#define KEEP_SECONDS 86400.0

enum kind { NOTHING, ROOT, DRIVER, GPUS, GPU, INFORMATION, MIG, LOST, CONFIG, VERSION, CTL, UVM, CARD };

struct node {
	enum kind kind;
	uint32_t card;
};

struct entry {
	enum kind folder;
	const char *name;
	enum kind kind;
	bool is_numbered; /* the name goes on with a card's number */
};

static const struct entry entries[] = {
	{ ROOT, "nvidiactl", CTL, false },
	{ ROOT, "nvidia-uvm", UVM, false },
	{ ROOT, "driver", DRIVER, false },
	{ ROOT, "nvidia", CARD, true },
	{ DRIVER, "version", VERSION, false },
	{ DRIVER, "gpus", GPUS, false },
	{ GPUS, "", GPU, true },
	{ GPU, "information", INFORMATION, false },
	{ GPU, "mig", MIG, false },
	{ GPU, "lost", LOST, false },
	{ GPU, "config", CONFIG, false },
	{ NOTHING, NULL, NOTHING, false },
};

static struct sim *this_sim(void)
{
	return fuse_get_context()->private_data;
}

/* A card's number with nothing before it that strtoul would forgive; advances text. */
static bool card_number(const char **text, uint32_t *card)
{
	const struct sim *sim = this_sim();
	char *end;

	if (**text < '0' || **text > '9' || (**text == '0' && (*text)[1] >= '0' && (*text)[1] <= '9'))
		return false;
	*card = (uint32_t)strtoul(*text, &end, 10);
	*text = end;
	return *card < sim->card_count;
}

/* The entry that a path begins with; advances the path behind it. NULL: there is none. */
static const struct entry *find_entry(enum kind folder, const char **path, uint32_t *card)
{
	const struct entry *entry;

	for (entry = entries; entry->name; entry++) {
		size_t length = strlen(entry->name);
		const char *rest = *path + length;

		if (entry->folder != folder || strncmp(*path, entry->name, length) != 0)
			continue;
		if (entry->is_numbered && !card_number(&rest, card))
			continue;
		if (*rest == '\0' || *rest == '/') {
			*path = rest;
			return entry;
		}
	}
	return NULL;
}

static struct node node_of(const char *path)
{
	struct node node = { ROOT, SIM_NO_CARD };
	const struct entry *entry;

	/* Each name follows a slash; the root is one alone. */
	while (node.kind != NOTHING && *path == '/' && strcmp(path, "/") != 0) {
		path++;
		entry = find_entry(node.kind, &path, &node.card);
		node.kind = entry ? entry->kind : NOTHING;
	}
	return node;
}

/* Content of a file of facts, which need be no text. */
static int text_of(const struct node *node, char *out, size_t room)
{
	const struct sim *sim = this_sim();

	if (node->kind == VERSION)
		return snprintf(out, room, "%s\n", sim->version);
	if (node->kind == MIG)
		return snprintf(out, room, "%d\n", sim->cards[node->card].mig);
	if (node->kind == LOST)
		return snprintf(out, room, "%d\n", sim->cards[node->card].lost);
	if (node->kind == CONFIG) {
		card_pci_config(sim, node->card, (uint8_t *)out);
		return SIM_PCI_CONFIG;
	}
	return card_information(sim, node->card, out, room);
}

/* Files that take 0 or 1. */
static bool is_switch(enum kind kind)
{
	return kind == MIG || kind == LOST;
}

static int op_getattr(const char *path, struct stat *out, struct fuse_file_info *info)
{
	struct node node = node_of(path);
	char text[1024];

	(void)info;
	memset(out, 0, sizeof(*out));
	out->st_nlink = 1;
	/* A number of its own for each node, and the same one for as long as the server lives. */
	out->st_ino = (ino_t)node.kind * 1000 + (node.card == SIM_NO_CARD ? 0 : node.card);
	switch (node.kind) {
	case NOTHING:
		return -ENOENT;
	case CTL:
	case UVM:
	case CARD:
		out->st_mode = S_IFREG | 0666;
		return 0;
	case VERSION:
	case INFORMATION:
	case MIG:
	case LOST:
	case CONFIG:
		out->st_mode = S_IFREG | (is_switch(node.kind) ? 0644 : 0444);
		out->st_size = text_of(&node, text, sizeof(text));
		return 0;
	default:
		out->st_mode = S_IFDIR | 0555;
		out->st_nlink = 2;
		return 0;
	}
}

static int op_readdir(const char *path, void *buffer, fuse_fill_dir_t fill, off_t offset, struct fuse_file_info *info,
	enum fuse_readdir_flags flags)
{
	const struct sim *sim = this_sim();
	enum kind folder = node_of(path).kind;
	const struct entry *entry;
	char name[32];
	uint32_t i;

	(void)offset;
	(void)info;
	(void)flags;
	fill(buffer, ".", NULL, 0, 0);
	fill(buffer, "..", NULL, 0, 0);
	for (entry = entries; entry->name; entry++) {
		if (entry->folder != folder)
			continue;
		if (!entry->is_numbered)
			fill(buffer, entry->name, NULL, 0, 0);
		for (i = 0; entry->is_numbered && i < sim->card_count; i++) {
			snprintf(name, sizeof(name), "%s%u", entry->name, i);
			fill(buffer, name, NULL, 0, 0);
		}
	}
	return 0;
}

static int op_open(const char *path, struct fuse_file_info *info)
{
	struct node node = node_of(path);
	struct sim *sim = this_sim();
	struct open_file *file;

	/* No process can map a file that is opened so. */
	info->direct_io = node.kind != UVM;
	/* close() of our own copies must not wait for ourselves. */
	info->noflush = 1;
	if (node.kind == UVM) {
		info->fh = (uintptr_t)uvm_open(sim);
		return info->fh != 0 ? 0 : -ENOMEM;
	}
	if (node.kind != CTL && node.kind != CARD)
		return 0;
	pthread_mutex_lock(&sim->lock);
	file = file_open(sim, node.card);
	if (file && node.kind == CARD)
		card_attach(sim, node.card);
	pthread_mutex_unlock(&sim->lock);
	info->fh = (uintptr_t)file;
	return file ? 0 : -ENFILE;
}

static void release_file(struct sim *sim, struct open_file *file)
{
	uint32_t card = file->card;

	file_release(sim, file);
	if (card == SIM_NO_CARD)
		return;
	pthread_mutex_lock(&sim->lock);
	card_release(sim, card);
	pthread_mutex_unlock(&sim->lock);
}

static int op_release(const char *path, struct fuse_file_info *info)
{
	if (path && node_of(path).kind == UVM)
		uvm_release(this_sim(), (struct uvm_file *)(uintptr_t)info->fh);
	else if (info->fh != 0)
		release_file(this_sim(), (struct open_file *)(uintptr_t)info->fh);
	return 0;
}

static int op_read(const char *path, char *out, size_t size, off_t offset, struct fuse_file_info *info)
{
	struct node node;
	char text[1024];
	int length;

	if (!path)
		return -EINVAL;
	node = node_of(path);
	if (offset == MAPPING_AT && (node.kind == CARD || node.kind == CTL))
		return mapping_read(this_sim(), (struct open_file *)(uintptr_t)info->fh, out, size);
	if (node.kind == CARD)
		return doorbell_read(this_sim(), (struct open_file *)(uintptr_t)info->fh, out, size);
	if (info->fh != 0)
		return -EINVAL;
	length = text_of(&node, text, sizeof(text));
	if (offset >= length)
		return 0;
	if (size > (size_t)(length - offset))
		size = (size_t)(length - offset);
	memcpy(out, text + offset, size);
	return (int)size;
}

/* Doorbells; MIG, which nvidia-smi switches by a call that is not public; and that a card falls off the bus, or is back. */
static int op_write(const char *path, const char *data, size_t size, off_t offset, struct fuse_file_info *info)
{
	struct node node = path ? node_of(path) : (struct node){ NOTHING, SIM_NO_CARD };
	struct sim *sim = this_sim();
	bool done = true;

	if (node.kind == CARD)
		return doorbell_write(sim, (struct open_file *)(uintptr_t)info->fh, data, size);
	if (!is_switch(node.kind) || offset != 0 || size < 1 || size > 2 || (data[0] != '0' && data[0] != '1'))
		return -EINVAL;
	pthread_mutex_lock(&sim->lock);
	if (node.kind == LOST)
		sim->cards[node.card].lost = data[0] == '1';
	else
		done = card_set_mig(&sim->cards[node.card], data[0] == '1');
	pthread_mutex_unlock(&sim->lock);
	return done ? (int)size : -EOPNOTSUPP;
}

/* open(2) with O_TRUNC is no error on a device node. */
static int op_truncate(const char *path, off_t size, struct fuse_file_info *info)
{
	enum kind kind = node_of(path).kind;

	(void)size;
	(void)info;
	return kind == CTL || kind == UVM || kind == CARD || is_switch(kind) ? 0 : -EACCES;
}

static int op_ioctl(const char *path, unsigned int command, void *argument, struct fuse_file_info *info,
	unsigned int flags, void *data)
{
	pid_t thread = fuse_get_context()->pid;
	struct caller caller = { .thread = thread };
	bool is_uvm = path && node_of(path).kind == UVM;
	struct uvm_file *uvm = (struct uvm_file *)(uintptr_t)info->fh;
	struct open_file *file = (struct open_file *)(uintptr_t)info->fh;
	uint64_t id;

	(void)flags;
	if (!file)
		return -ENOTTY;
	if (command == SIM_IDENTIFY_IOCTL && data && caller_process(&caller) == getpid()) {
		id = is_uvm ? uvm->id : file->id;
		memcpy(data, &id, sizeof(id));
		return 0;
	}
	if (is_uvm)
		return uvm_ioctl(this_sim(), uvm, thread, command, (uintptr_t)argument);
	return escape_ioctl(this_sim(), file, thread, command, (uintptr_t)argument, data);
}

/* Events of the driver's: none ever comes. Without an answer poll(2) would find the file ready. */
static int op_poll(const char *path, struct fuse_file_info *info, struct fuse_pollhandle *handle, unsigned int *events)
{
	(void)path;
	(void)info;
	if (handle)
		fuse_pollhandle_destroy(handle);
	*events = 0;
	return 0;
}

/* The first request of the kernel: from here on the mount answers. */
static void *op_init(struct fuse_conn_info *connection, struct fuse_config *config)
{
	struct sim *sim = this_sim();

	(void)connection;
	config->use_ino = 1;
	config->entry_timeout = KEEP_SECONDS;
	config->attr_timeout = KEEP_SECONDS;
	return sim;
}

static const struct fuse_operations operations = {
	.getattr = op_getattr,
	.readdir = op_readdir,
	.open = op_open,
	.release = op_release,
	.read = op_read,
	.write = op_write,
	.truncate = op_truncate,
	.ioctl = op_ioctl,
	.poll = op_poll,
	.init = op_init,
};

const struct fuse_operations *node_operations(void)
{
	return &operations;
}
