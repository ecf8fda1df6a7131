// SPDX-License-Identifier: Apache-2.0
/*
 * Whether a client, or an object of it, is in the driver: by asking for a duplicate. The source client is
 * looked up before the source object, and both before any right is judged:
 * src/nvidia/src/libraries/resserv/src/rs_server.c, serverCopyResource.
 */
#include "driver.h"
#include "rm.h"

/* A handle nobody has: RM's own begin at 0xc1d00000, and a client picks its handles itself. */
#define HANDLE_IMPOSSIBLE 0xfeedfacfu

/* What comes of a duplicate that was not to be. */
static void drop(struct driver *driver, u32 handle)
{
	const struct nv_layout_NVOS00_PARAMETERS *l = &driver->abi->NVOS00_PARAMETERS;
	u8 top[64] = { 0 };

	put32(top, l->hRoot, driver->client);
	put32(top, l->hObjectOld, handle);
	rm_call(driver->fd, NV_ESC_RM_FREE, top, l->bytes);
}

static int probe(struct driver *driver, u32 client, u32 object)
{
	u32 handle = HANDLE_IMPOSSIBLE;
	int r = rm_dup(driver->fd, driver->abi, driver->client, driver->client, &handle, client, object);

	if (r == NV_OK)
		drop(driver, handle);
	return r;
}

int driver_client_gone(struct driver *driver, u32 client)
{
	int gone;

	pthread_mutex_lock(&driver->lock);
	gone = probe(driver, client, HANDLE_IMPOSSIBLE);
	gone = gone == NV_ERR_INVALID_OBJECT_HANDLE || gone == NV_ERR_INVALID_CLIENT;
	/* The same status would tell of our own client: believe it only while that one answers. */
	if (gone)
		gone = probe(driver, driver->client, HANDLE_IMPOSSIBLE) == NV_ERR_OBJECT_NOT_FOUND;
	pthread_mutex_unlock(&driver->lock);
	return gone;
}

int driver_object_gone(struct driver *driver, u32 client, u32 object)
{
	int gone;

	pthread_mutex_lock(&driver->lock);
	gone = probe(driver, client, object) == NV_ERR_OBJECT_NOT_FOUND;
	pthread_mutex_unlock(&driver->lock);
	return gone;
}
