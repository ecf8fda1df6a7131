// SPDX-License-Identifier: Apache-2.0
/*
 * classes [--dev DIR]: asks for an object of each class that the table of verdicts refuses, and of thousands that it has not,
 * by the newer call and by the two older ones; and, below a parent that is not there, for one of each class that passes.
 * Prints "tried" with how many were refused, how many not known, to how many the driver answered, and how many passed.
 */
#include "client.h"

#define UNKNOWN 2048u
#define HANDLE 0x7a000001u
#define NOWHERE 0x7a000002u

static bool is_judged(uint32_t number)
{
	unsigned int i;

	for (i = 0; i < nv_class_count; i++) {
		if (nv_classes[i].id == number)
			return true;
	}
	return false;
}

static uint32_t by_alloc(struct session *session, uint32_t parent, uint32_t number)
{
	uint32_t handle = HANDLE;

	return session_alloc(session, parent, number, NULL, 0, &handle);
}

static uint32_t by_alloc_memory(const struct session *session, uint32_t number)
{
	const struct nv_layout_nv_ioctl_nvos02_parameters_with_fd *at =
		&session->settings->abi->nv_ioctl_nvos02_parameters_with_fd;
	uint8_t data[64] = { 0 };
	uint32_t status;

	put32(data, at->params_hRoot, session->client);
	put32(data, at->params_hObjectParent, session->device);
	put32(data, at->params_hObjectNew, HANDLE);
	put32(data, at->params_hClass, number);
	status = driver_call(session->settings, session->card, NV_ESC_RM_ALLOC_MEMORY, data, at->bytes);
	return status ? status : get32(data, at->params_status);
}

static uint32_t by_alloc_object(const struct session *session, uint32_t number)
{
	const struct nv_layout_NVOS05_PARAMETERS *at = &session->settings->abi->NVOS05_PARAMETERS;
	uint8_t data[64] = { 0 };
	uint32_t status;

	put32(data, at->hRoot, session->client);
	put32(data, at->hObjectParent, session->device);
	put32(data, at->hObjectNew, HANDLE);
	put32(data, at->hClass, number);
	status = driver_call(session->settings, session->ctl, NV_ESC_RM_ALLOC_OBJECT, data, at->bytes);
	return status ? status : get32(data, at->status);
}

static void try_judged(struct session *session, const struct nv_class *class, struct tally *tally)
{
	uint32_t object;

	if (class->verdict == NV_CLASS_PASS) {
		tally->passed += by_alloc(session, NOWHERE, class->id) != NV_ERR_INSUFFICIENT_PERMISSIONS;
		return;
	}
	if (class->verdict != NV_CLASS_REFUSE)
		return;
	object = by_alloc_object(session, class->id);
	/* No memory comes by the last of them. */
	if (by_alloc(session, session->device, class->id) == class->status &&
		by_alloc(session, session->subdevice, class->id) == class->status &&
		by_alloc(session, session->client, class->id) == class->status &&
		by_alloc_memory(session, class->id) == class->status &&
		(object == class->status || object == NV_ERR_INVALID_CLASS))
		tally->refused++;
	else
		tally->reached++;
}

/* The driver has no such class either: that it was not asked is told by the older call, to which it answers otherwise. */
static void try_unknown(struct session *session, uint32_t number, struct tally *tally)
{
	if (is_judged(number))
		return;
	if (by_alloc(session, session->device, number) == NV_ERR_INVALID_CLASS &&
		by_alloc_object(session, number) == NV_ERR_INVALID_CLASS &&
		by_alloc_memory(session, number) == NV_ERR_INSUFFICIENT_PERMISSIONS)
		tally->unknown++;
	else
		tally->reached++;
}

int main(int argc, char **argv)
{
	struct settings settings;
	struct session session;
	struct tally tally = { 0 };
	uint32_t i;

	client_begin(&settings, &argc, &argv);
	client_open(&session, &settings);
	for (i = 0; i < nv_class_count; i++)
		try_judged(&session, &nv_classes[i], &tally);
	client_try_unknown(&session, UNKNOWN, &tally, try_unknown);
	return 0;
}
