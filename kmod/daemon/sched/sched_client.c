// SPDX-License-Identifier: Apache-2.0
/* The RM client for scheduling: enables and disables channels, and reads samples of utilisation. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>

#include "descriptors.h"
#include "engine.h"
#include "rm.h"

#define HANDLE_DEVICE 0xc9e00000u
#define HANDLE_SUBDEVICE 0xc9e00001u
#define SAMPLES_MAX SAMPLED_PROCESSES
/* A sample says how busy an engine was in hundredths of a percent. */
#define BUSY_ALL 10000u
/* The longest time that one sample can stand for: if they are further apart, some are missing. */
#define SAMPLE_NS 1000000000ull

struct sample {
	u64 at; /* nanoseconds of the driver's clock */
	u32 process, busy;
};

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
	const struct nv_layout_NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS *l =
		&d->core.abi->NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS;
	u8 buf[1024];
	u32 i;

	if (l->bytes == 0 || l->bytes > sizeof(buf) || batch->count > (l->bytes - l->hChannelList) / 4u)
		return NV_ERR_NOT_SUPPORTED;
	memset(buf, 0, l->bytes);
	buf[l->bDisable] = batch->disable != 0;
	put32(buf, l->numChannels, batch->count);
	for (i = 0; i < batch->count; i++) {
		put32(buf, l->hClientList + 4 * i, batch->client[i]);
		put32(buf, l->hChannelList + 4 * i, batch->channel[i]);
	}
	return rm_control(
		sc->fd, d->core.abi, sc->client, sc->subdevice, NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, buf, l->bytes);
}

/* Ask for the whole ring of samples. The driver's status, or a negative errno. */
static int ask(struct cgpud *d, struct sched_client *sc)
{
	const struct nv_layout_NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS *l =
		&d->core.abi->NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS;

	if (l->bytes == 0)
		return NV_ERR_NOT_SUPPORTED;
	if (!sc->samples)
		sc->samples = malloc(l->bytes);
	if (!sc->samples)
		return -ENOMEM;
	memset(sc->samples, 0, l->bytes);
	sc->samples[l->type] = NV2080_CTRL_GPUMON_SAMPLE_TYPE_PERFMON_UTIL;
	put32(sc->samples, l->bufSize, (u32)l->bytes - l->samples);
	return rm_control(sc->fd, d->core.abi, sc->client, sc->subdevice,
		NV2080_CTRL_CMD_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2, sc->samples, l->bytes);
}

/* Extract the new samples, in the order of time. */
static u32 sort_new(const struct nv_abi *abi, const struct sched_client *sc, struct sample sample[SAMPLES_MAX])
{
	const struct nv_layout_NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS *l =
		&abi->NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS;
	const struct nv_layout_NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE *one =
		&abi->NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE;
	const struct nv_layout_NV2080_CTRL_PERF_GPUMON_ENGINE_UTIL_SAMPLE *engine =
		&abi->NV2080_CTRL_PERF_GPUMON_ENGINE_UTIL_SAMPLE;
	u32 offset, n = 0, k;

	for (offset = l->samples; offset + one->bytes <= l->bytes && n < SAMPLES_MAX; offset += one->bytes) {
		const u8 *from = sc->samples + offset;
		struct sample found = { .at = get64(from, one->base_timeStamp),
			.process = get32(from, one->gr + engine->procId),
			.busy = get32(from, one->gr + engine->util) };

		if (found.at <= sc->sampling.since)
			continue;
		for (k = n++; k && sample[k - 1].at > found.at; k--)
			sample[k] = sample[k - 1];
		sample[k] = found;
	}
	return n;
}

static u32 add(struct process_use *use, u32 count, const struct sample *sample, u64 ns)
{
	u32 i;

	for (i = 0; i < count && use[i].tgid != (s32)sample->process; i++)
		;
	if (i == count)
		use[count++] = (struct process_use){ .tgid = (s32)sample->process };
	use[i].ns += ns * (sample->busy < BUSY_ALL ? sample->busy : BUSY_ALL) / BUSY_ALL;
	return count;
}

static enum cgpu_samples_kind kind_of(const struct nv_abi *abi, u64 before, u32 n)
{
	u32 places = (u32)(abi->NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS.bytes -
			     abi->NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS.samples) /
		abi->NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE.bytes;

	if (before == 0)
		return CGPU_SAMPLES_PART;
	return n < places && n < SAMPLES_MAX ? CGPU_SAMPLES_WHOLE : CGPU_SAMPLES_LOST;
}

int sched_client_sample(struct cgpud *d, struct sched_client *sc, struct process_use *use, enum cgpu_samples_kind *kind)
{
	struct sample sample[SAMPLES_MAX];
	u64 before = sc->sampling.since, ns = 0;
	u32 i, n, count = 0;
	int r;

	if (sc->fd < 0 || sc->no_samples)
		return -ENOTSUP;
	r = ask(d, sc);
	if (r) {
		sc->no_samples = r == NV_ERR_NOT_SUPPORTED;
		return r < 0 && r != -ENOMEM ? r : -EAGAIN;
	}
	n = sort_new(d->core.abi, sc, sample);
	*kind = kind_of(d->core.abi, before, n);
	for (i = 0; i < n; i++) {
		/* Samples of one moment stand for the same time. The first one of all has no known start. */
		if (sample[i].at != sc->sampling.since) {
			ns = sc->sampling.since ? sample[i].at - sc->sampling.since : 0;
			sc->sampling.since = sample[i].at;
		}
		if (ns > SAMPLE_NS)
			ns = SAMPLE_NS;
		if (before && ns && sample[i].process && sample[i].process != NV2080_GPUMON_PID_INVALID)
			count = add(use, count, &sample[i], ns);
	}
	return (int)count;
}
