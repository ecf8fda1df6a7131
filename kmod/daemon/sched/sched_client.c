// SPDX-License-Identifier: Apache-2.0
/* The RM client for scheduling: enables and disables channels, and reads samples of utilisation. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>

#include "cgpu_card.h"
#include "descriptors.h"
#include "engine.h"
#include "rm.h"

#define HANDLE_DEVICE 0xc9e00000u
#define HANDLE_SUBDEVICE 0xc9e00001u

int sched_client_open(struct cgpud *d, struct sched_client *sc, u32 gpu)
{
	const struct nv_abi *abi = d->core.abi;
	int r;

	if (sc->fd >= 0)
		return 0;
	sc->fd = open(d->devices.at[0].path, O_RDWR | O_CLOEXEC);
	if (sc->fd < 0)
		return -errno;
	sc->client = 0;
	sc->sampling.since = 0;
	sc->subdevice = HANDLE_SUBDEVICE;
	r = rm_alloc(sc->fd, abi, 0, 0, &sc->client, NV01_ROOT_CLIENT, NULL, 0);
	if (r == 0)
		r = rm_subdevice(
			sc->fd, abi, sc->client, d->driver.gpu[gpu].device_instance, HANDLE_DEVICE, HANDLE_SUBDEVICE);
	if (r)
		close_one(&sc->fd);
	return r > 0 ? -EIO : r;
}

int sched_client_set_channels(struct cgpud *d, const struct sched_client *sc, const struct cgpu_channel_batch *batch)
{
	u8 buf[1024];
	u32 bytes = cgpu_card_channels(d->core.abi, batch, buf, sizeof(buf));

	if (bytes == 0)
		return NV_ERR_NOT_SUPPORTED;
	return rm_control(
		sc->fd, d->core.abi, sc->client, sc->subdevice, NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, buf, bytes);
}

static int samples_control(struct cgpu_card_client *card, u32 command, u32 bytes)
{
	const struct sched_client *sc = card->ctx;
	int r = rm_control(sc->fd, card->abi, sc->client, sc->subdevice, command, card->params, bytes);

	if (r == NV_ERR_NOT_SUPPORTED)
		return -EOPNOTSUPP;
	return r > 0 ? -EAGAIN : r;
}

int sched_client_sample(struct cgpud *d, struct sched_client *sc, u32 gpu)
{
	struct cgpu_card_client card = { .abi = d->core.abi, .ctx = sc, .control = samples_control };
	int r;

	card.room = card.abi->NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS.bytes;
	if (!sc->samples)
		sc->samples = malloc(card.room);
	if (!sc->samples && card.room)
		return -EAGAIN;
	card.params = sc->samples;
	r = cgpu_card_sample(&card, &d->core, gpu, &sc->sampling);
	sc->no_samples = r == -EOPNOTSUPP;
	return r;
}
