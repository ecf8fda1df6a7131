// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine.h"
#include "rm.h"

#define HANDLE_DEVICE 0xc9e00000u
#define HANDLE_SUBDEVICE 0xc9e00001u
#define SAMPLES_MAX GATING_PROCESSES
/* A sample says how busy an engine was in hundredths of a percent. */
#define BUSY_ALL 10000u
/* What one sample can stand for at most: further apart, some are missing. */
#define SAMPLE_NS 1000000000ull

struct sample {
	u64 at; /* nanoseconds of the driver's clock */
	u32 process, busy;
};

void gating_init(struct gating *gating)
{
	*gating = (struct gating){ .fd = -1 };
}

int gating_open(struct cgpud *d, struct gating *gating, u32 gpu)
{
	const struct nv_abi *abi = d->core.abi;
	int r;

	if (gating->fd >= 0)
		return 0;
	gating->fd = open(d->devices.at[0].path, O_RDWR | O_CLOEXEC);
	if (gating->fd < 0)
		return -errno;
	gating->client = 0;
	gating->looks.since = 0;
	gating->subdevice = HANDLE_SUBDEVICE;
	r = rm_alloc(gating->fd, abi, 0, 0, &gating->client, NV01_ROOT_CLIENT, NULL, 0);
	if (r == 0)
		r = rm_subdevice(gating->fd, abi, gating->client, d->driver.gpu[gpu].device_instance, HANDLE_DEVICE,
			HANDLE_SUBDEVICE);
	if (r)
		gating_close(gating);
	return r > 0 ? -EIO : r;
}

void gating_close(struct gating *gating)
{
	if (gating->fd >= 0)
		close(gating->fd);
	gating->fd = -1;
}

int gating_tell(struct cgpud *d, const struct gating *gating, const struct cgpu_channel_batch *gates)
{
	const struct nv_layout_NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS *l =
		&d->core.abi->NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS;
	u8 buf[1024];
	u32 i;

	if (l->bytes == 0 || l->bytes > sizeof(buf) || gates->count > (l->bytes - l->hChannelList) / 4u)
		return NV_ERR_NOT_SUPPORTED;
	memset(buf, 0, l->bytes);
	buf[l->bDisable] = gates->disable != 0;
	rm_put32(buf, l->numChannels, gates->count);
	for (i = 0; i < gates->count; i++) {
		rm_put32(buf, l->hClientList + 4 * i, gates->client[i]);
		rm_put32(buf, l->hChannelList + 4 * i, gates->channel[i]);
	}
	return rm_control(gating->fd, d->core.abi, gating->client, gating->subdevice,
		NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, buf, l->bytes);
}

/* Ask for the whole ring of samples. The driver's status, or a negative errno. */
static int ask(struct cgpud *d, struct gating *gating)
{
	const struct nv_layout_NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS *l =
		&d->core.abi->NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS;

	if (l->bytes == 0)
		return NV_ERR_NOT_SUPPORTED;
	if (!gating->samples)
		gating->samples = malloc(l->bytes);
	if (!gating->samples)
		return -ENOMEM;
	memset(gating->samples, 0, l->bytes);
	gating->samples[l->type] = NV2080_CTRL_GPUMON_SAMPLE_TYPE_PERFMON_UTIL;
	rm_put32(gating->samples, l->bufSize, (u32)l->bytes - l->samples);
	return rm_control(gating->fd, d->core.abi, gating->client, gating->subdevice,
		NV2080_CTRL_CMD_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2, gating->samples, l->bytes);
}

/* Those that are new, in the order of time. */
static u32 sort_new(const struct nv_abi *abi, const struct gating *gating, struct sample sample[SAMPLES_MAX])
{
	const struct nv_layout_NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS *l =
		&abi->NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS;
	const struct nv_layout_NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE *one =
		&abi->NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE;
	const struct nv_layout_NV2080_CTRL_PERF_GPUMON_ENGINE_UTIL_SAMPLE *engine =
		&abi->NV2080_CTRL_PERF_GPUMON_ENGINE_UTIL_SAMPLE;
	u32 offset, n = 0, k;

	for (offset = l->samples; offset + one->bytes <= l->bytes && n < SAMPLES_MAX; offset += one->bytes) {
		const u8 *from = gating->samples + offset;
		struct sample found = { .at = rm_get64(from, one->base_timeStamp),
			.process = rm_get32(from, one->gr + engine->procId),
			.busy = rm_get32(from, one->gr + engine->util) };

		if (found.at <= gating->looks.since)
			continue;
		for (k = n++; k && sample[k - 1].at > found.at; k--)
			sample[k] = sample[k - 1];
		sample[k] = found;
	}
	return n;
}

static u32 add(struct gating_use *use, u32 count, const struct sample *sample, u64 ns)
{
	u32 i;

	for (i = 0; i < count && use[i].tgid != (s32)sample->process; i++)
		;
	if (i == count)
		use[count++] = (struct gating_use){ .tgid = (s32)sample->process };
	use[i].ns += ns * (sample->busy < BUSY_ALL ? sample->busy : BUSY_ALL) / BUSY_ALL;
	return count;
}

static enum cgpu_samples_kind look_of(const struct nv_abi *abi, u64 before, u32 n)
{
	u32 places = (u32)(abi->NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS.bytes -
			     abi->NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS.samples) /
		abi->NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE.bytes;

	if (before == 0)
		return CGPU_SAMPLES_PART;
	return n < places && n < SAMPLES_MAX ? CGPU_SAMPLES_WHOLE : CGPU_SAMPLES_LOST;
}

int gating_sample(struct cgpud *d, struct gating *gating, struct gating_use *use, enum cgpu_samples_kind *look)
{
	struct sample sample[SAMPLES_MAX];
	u64 before = gating->looks.since, ns = 0;
	u32 i, n, count = 0;
	int r;

	if (gating->fd < 0 || gating->no_samples)
		return -ENOTSUP;
	r = ask(d, gating);
	if (r) {
		gating->no_samples = r == NV_ERR_NOT_SUPPORTED;
		return r < 0 && r != -ENOMEM ? r : -EAGAIN;
	}
	n = sort_new(d->core.abi, gating, sample);
	*look = look_of(d->core.abi, before, n);
	for (i = 0; i < n; i++) {
		/* Those of one moment stand for the same time. Since when the first of all counts is not known. */
		if (sample[i].at != gating->looks.since) {
			ns = gating->looks.since ? sample[i].at - gating->looks.since : 0;
			gating->looks.since = sample[i].at;
		}
		if (ns > SAMPLE_NS)
			ns = SAMPLE_NS;
		if (before && ns && sample[i].process && sample[i].process != NV2080_GPUMON_PID_INVALID)
			count = add(use, count, &sample[i], ns);
	}
	return (int)count;
}
