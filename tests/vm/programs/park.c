// SPDX-License-Identifier: Apache-2.0
/*
 * park: stops a thread in each place where the kernel copies what a call points to, and stays so until it is killed, or
 * has read a line: then it lets them go on, says what became of each call, and rests with what they got.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/ioctl.h>

#include "client.h"
#include "userfault.h"

enum place { TOP, WRAPPER, PARAMETERS, RIGHTS, LIST, ANSWER, VIRTUAL_ANSWER, QUERY_ANSWER, PLACES };

static const char *const names[PLACES] = { "top", "wrapper", "parameters", "rights", "list", "answer", "virtual_answer",
	"query_answer" };

static struct settings settings;
static struct session session;
static struct trap traps[PLACES];
static pthread_t threads[PLACES];
static uint32_t statuses[PLACES];

static void fill_params(uint8_t *params, uint32_t location)
{
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &settings.abi->NV_MEMORY_ALLOCATION_PARAMS;

	memset(params, 0, 256);
	rm_memory_params(params, settings.abi, location << NVOS32_ATTR_LOCATION_SHIFT, 65536);
	put32(params, at->flags, location == NVOS32_ATTR_LOCATION_PCI ? NVOS32_ALLOC_FLAGS_VIRTUAL : 0);
}

static uint32_t alloc_with(enum place place, uint32_t class_id, void *params, void *rights)
{
	struct rm_ioctl io = rm_alloc_ioctl(
		settings.abi, VIA_RM64, session.client, session.device, 0xbeef0000u + place, class_id, params, 0);
	uint32_t status;

	put_pointer(io.data, settings.abi->NVOS64_PARAMETERS.pRightsRequested, rights);
	status = driver_make(&settings, session.ctl, &io);
	return status == RM_ERRNO ? NV_ERR_GENERIC : status;
}

static uint32_t query_list(void *list)
{
	const struct nv_layout_NV2080_CTRL_FB_GET_INFO_PARAMS *at = &settings.abi->NV2080_CTRL_FB_GET_INFO_PARAMS;
	uint8_t params[64] = { 0 };

	put32(params, at->fbInfoListSize, 2);
	put_pointer(params, at->fbInfoList, list);
	return session_control(&session, session.subdevice, NV2080_CTRL_CMD_FB_GET_INFO, params, at->bytes);
}

static uint32_t call_at(enum place place)
{
	uint8_t params[256], wrapper[16] = { 0 }, *page = traps[place].page;

	fill_params(params, NVOS32_ATTR_LOCATION_VIDMEM);
	switch (place) {
	case TOP:
		return driver_call(
			&settings, session.ctl, NV_ESC_RM_ALLOC, page, settings.abi->NVOS64_PARAMETERS.bytes);
	case WRAPPER:
		put32(wrapper, settings.abi->nv_ioctl_xfer_t.cmd, NV_ESC_RM_VID_HEAP_CONTROL);
		put32(wrapper, settings.abi->nv_ioctl_xfer_t.size, settings.abi->NVOS32_PARAMETERS.bytes);
		put_pointer(wrapper, settings.abi->nv_ioctl_xfer_t.ptr, page);
		return driver_call(&settings, session.ctl, NV_ESC_IOCTL_XFER_CMD, wrapper, sizeof(wrapper));
	case PARAMETERS:
	case ANSWER:
		return alloc_with(place, NV01_MEMORY_LOCAL_USER, page, NULL);
	case RIGHTS:
		return alloc_with(place, NV01_MEMORY_LOCAL_USER, params, page);
	case VIRTUAL_ANSWER:
		return alloc_with(place, NV50_MEMORY_VIRTUAL, page, NULL);
	default:
		return query_list(page);
	}
}

static void *stop_there(void *argument)
{
	enum place place = (enum place)(uintptr_t)argument;

	statuses[place] = call_at(place);
	return NULL;
}

static bool start_at(enum place place)
{
	bool on_write = place == ANSWER || place == VIRTUAL_ANSWER || place == QUERY_ANSWER;
	uint8_t data[256] = { 0 };

	if (place == ANSWER || place == VIRTUAL_ANSWER)
		fill_params(data, place == ANSWER ? NVOS32_ATTR_LOCATION_VIDMEM : NVOS32_ATTR_LOCATION_PCI);
	return trap_make(&traps[place], on_write, data, sizeof(data)) &&
		pthread_create(&threads[place], NULL, stop_there, (void *)(uintptr_t)place) == 0 &&
		trap_wait(&traps[place]);
}

static void let_go(void)
{
	uint8_t data[256] = { 0 };
	uint32_t place;

	for (place = 0; place < PLACES; place++) {
		memset(data, 0, sizeof(data));
		if (place == PARAMETERS)
			fill_params(data, NVOS32_ATTR_LOCATION_VIDMEM);
		trap_release(&traps[place], data, sizeof(data));
	}
	printf("resting");
	for (place = 0; place < PLACES; place++) {
		pthread_join(threads[place], NULL);
		printf(" %s=%u", names[place], statuses[place]);
	}
	printf("\n");
}

int main(int argc, char **argv)
{
	uint32_t place;

	client_begin(&settings, &argc, &argv, 0);
	client_open(&session, &settings);
	printf("parked");
	for (place = 0; place < PLACES; place++) {
		if (!start_at((enum place)place)) {
			perror(names[place]);
			return 1;
		}
		printf(" %s", names[place]);
	}
	printf(" all\n");
	if (getchar() == '\n')
		let_go();
	client_rest();
}
