// SPDX-License-Identifier: Apache-2.0
/* Character devices by their numbers; the files of simulated cards by their identity. */
#define _GNU_SOURCE
#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "recorder.h"

#define UVM_TOOLS_MINOR 1u

static const char *const names[] = { [NODE_CTL] = "nvidiactl",
	[NODE_CARD] = "nvidia",
	[NODE_UVM] = "nvidia-uvm",
	[NODE_UVM_TOOLS] = "nvidia-uvm-tools",
	[NODE_MODESET] = "nvidia-modeset" };

struct node node_of_name(const char *name)
{
	size_t prefix = strlen(names[NODE_CARD]);
	enum node_kind kind;
	unsigned long card;
	char *end;

	for (kind = NODE_CTL; kind <= NODE_MODESET; kind++) {
		if (kind != NODE_CARD && strcmp(name, names[kind]) == 0)
			return (struct node){ kind, 0 };
	}
	if (strncmp(name, names[NODE_CARD], prefix) == 0 && isdigit((unsigned char)name[prefix])) {
		card = strtoul(name + prefix, &end, 10);
		if (*end == '\0' && card <= NV_GPU_MINOR_MAX)
			return (struct node){ NODE_CARD, (unsigned int)card };
	}
	return (struct node){ NODE_NONE, 0 };
}

void node_name(const struct node *node, char name[NODE_NAME_BYTES])
{
	if (node->kind == NODE_CARD)
		snprintf(name, NODE_NAME_BYTES, "%s%u", names[NODE_CARD], node->card);
	else
		snprintf(name, NODE_NAME_BYTES, "%s", names[node->kind]);
}

static bool identify(const char *path, struct statx *about)
{
	return statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, about) == 0;
}

static uint64_t device_of(const struct statx *about)
{
	return (uint64_t)about->stx_dev_major << 32 | about->stx_dev_minor;
}

static void add_simulated(struct nodes *nodes, const char *dev, const struct node *node)
{
	char path[4200], name[NODE_NAME_BYTES];
	struct statx about;

	node_name(node, name);
	if (nodes->simulated_count == SIMULATED_MAX ||
		snprintf(path, sizeof(path), "%s/%s", dev, name) >= (int)sizeof(path))
		return;
	if (!identify(path, &about) || !S_ISREG(about.stx_mode))
		return;
	nodes->simulated[nodes->simulated_count++] =
		(struct simulated){ .node = *node, .device = device_of(&about), .inode = about.stx_ino };
}

void nodes_init(struct nodes *nodes, const char *dev)
{
	struct node node = { NODE_CTL, 0 };

	memset(nodes, 0, sizeof(*nodes));
	add_simulated(nodes, dev, &node);
	for (node.kind = NODE_UVM; node.kind <= NODE_MODESET; node.kind++)
		add_simulated(nodes, dev, &node);
	node.kind = NODE_CARD;
	for (node.card = 0; node.card < 32; node.card++)
		add_simulated(nodes, dev, &node);
}

/* nvidia-uvm gets its number when it is loaded, which can happen during the recording. */
static void find_uvm(struct nodes *nodes)
{
	FILE *file = fopen("/proc/devices", "re");
	char line[128], name[64];
	unsigned int major;

	while (file && fgets(line, sizeof(line), file) && strncmp(line, "Block", 5) != 0) {
		if (sscanf(line, "%u %63s", &major, name) == 2 && strcmp(name, "nvidia-uvm") == 0)
			nodes->uvm_major = major;
	}
	if (file)
		fclose(file);
}

static struct node of_device(struct nodes *nodes, unsigned int major, unsigned int minor)
{
	struct node node = { NODE_NONE, 0 };

	if (major == NV_NVIDIA_MAJOR) {
		node.kind = minor == NV_NVIDIACTL_MINOR	 ? NODE_CTL :
			minor == NV_NVIDIA_MODESET_MINOR ? NODE_MODESET :
			minor <= NV_GPU_MINOR_MAX	 ? NODE_CARD :
							   NODE_NONE;
		node.card = node.kind == NODE_CARD ? minor : 0;
		return node;
	}
	if (major < MAJORS && !nodes->asked[major]) {
		nodes->asked[major] = true;
		find_uvm(nodes);
	}
	if (nodes->uvm_major && major == nodes->uvm_major)
		node.kind = minor == UVM_TOOLS_MINOR ? NODE_UVM_TOOLS : NODE_UVM;
	return node;
}

struct node nodes_identify(struct nodes *nodes, pid_t tid, int fd)
{
	struct node none = { NODE_NONE, 0 };
	struct statx about;
	char path[64];
	unsigned int i;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", tid, fd);
	if (fd < 0 || !identify(path, &about))
		return none;
	if (S_ISCHR(about.stx_mode))
		return of_device(nodes, about.stx_rdev_major, about.stx_rdev_minor);
	for (i = 0; S_ISREG(about.stx_mode) && i < nodes->simulated_count; i++) {
		if (nodes->simulated[i].device == device_of(&about) && nodes->simulated[i].inode == about.stx_ino)
			return nodes->simulated[i].node;
	}
	return none;
}
