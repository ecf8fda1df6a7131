// SPDX-License-Identifier: Apache-2.0
/* The system calls, and the calls that need no client. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <linux/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rm_client.h"

int driver_open(const struct settings *settings, const char *node)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", settings->dev, node);
	return open(path, O_RDWR | O_CLOEXEC);
}

static uint32_t raw(const struct settings *settings, int fd, uint32_t nr, void *data, size_t size)
{
	unsigned long command = (unsigned long)settings->direction << _IOC_DIRSHIFT |
		settings->magic << _IOC_TYPESHIFT | nr << _IOC_NRSHIFT | (unsigned long)size << _IOC_SIZESHIFT;

	return syscall(SYS_ioctl, fd, command, data) == 0 ? NV_OK : RM_ERRNO;
}

uint32_t driver_call(const struct settings *settings, int fd, uint32_t nr, uint8_t *data, size_t size)
{
	uint8_t wrapper[16] = { 0 };
	const struct nv_layout_nv_ioctl_xfer_t *at = &nv_abi_layouts[0].nv_ioctl_xfer_t;

	if (!settings->wrapped)
		return raw(settings, fd, nr, data, size);
	put32(wrapper, at->cmd, nr);
	put32(wrapper, at->size, (uint32_t)size);
	put_pointer(wrapper, at->ptr, data);
	return raw(settings, fd, NV_ESC_IOCTL_XFER_CMD, wrapper, sizeof(wrapper));
}

uint32_t driver_make(const struct settings *settings, int fd, struct rm_ioctl *io)
{
	uint32_t status = driver_call(settings, fd, io->nr, io->data, io->bytes);

	return status != NV_OK ? status : get32(io->data, io->status);
}

static bool newer(const struct nv_abi_version *version, const unsigned int parts[3])
{
	if (version->major != parts[0])
		return version->major > parts[0];
	if (version->minor != parts[1])
		return version->minor > parts[1];
	return version->patch > parts[2];
}

/* The version of the tables that is this one, or the last before it; NULL: none is, or the text is no version. */
static const struct nv_abi_version *driver_table(const char *text)
{
	const struct nv_abi_version *found = NULL;
	unsigned int parts[3] = { 0 }, i;

	if (sscanf(text, "%5u.%5u.%5u", &parts[0], &parts[1], &parts[2]) < 2)
		return NULL;
	for (i = 0; i < nv_abi_version_count; i++) {
		if (!newer(&nv_abi_versions[i], parts))
			found = &nv_abi_versions[i];
	}
	return found;
}

bool driver_version(struct settings *settings, int ctl)
{
	const struct nv_layout_nv_ioctl_rm_api_version_t *at = &nv_abi_layouts[0].nv_ioctl_rm_api_version_t;
	const struct nv_abi_version *table;
	uint8_t data[72] = { 0 };

	put32(data, at->cmd, NV_RM_API_VERSION_CMD_QUERY);
	if (driver_call(settings, ctl, NV_ESC_CHECK_VERSION_STR, data, sizeof(data)) != NV_OK)
		return false;
	memcpy(settings->version, data + at->versionString, sizeof(settings->version) - 1);
	table = driver_table(settings->version);
	settings->abi = table ? &nv_abi_layouts[table->layout] : NULL;
	return table != NULL;
}

uint32_t driver_cards(const struct settings *settings, int ctl, uint32_t ids[RM_MAX_GPUS], uint32_t *count)
{
	const struct nv_layout_nv_ioctl_card_info_t *at = &settings->abi->nv_ioctl_card_info_t;
	uint8_t data[72 * RM_MAX_GPUS] = { 0 };
	uint32_t status = driver_call(settings, ctl, NV_ESC_CARD_INFO, data, sizeof(data)), i, minor;

	*count = 0;
	memset(ids, 0, sizeof(ids[0]) * RM_MAX_GPUS);
	for (i = 0; status == NV_OK && i < RM_MAX_GPUS; i++) {
		const uint8_t *card = data + (size_t)i * at->bytes;

		minor = get32(card, at->minor_number);
		if (card[at->valid] && minor < RM_MAX_GPUS) {
			ids[minor] = get32(card, at->gpu_id);
			(*count)++;
		}
	}
	return status;
}
