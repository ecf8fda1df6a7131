// SPDX-License-Identifier: Apache-2.0
/*
 * failed_dup [--dev DIR] BYTES: duplicates memory in ways that fail, many times, then gives the memory back, then its
 * client. Rests after each of these with a line that says what it did, until it is sent one. With a second argument,
 * `below`, there is one duplicate only, below the memory itself, so that it goes with it, where the driver lets that be; with
 * `parentless`, all are below parents that are not there.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client.h"

#define ROUNDS 20u
#define NOBODY 0x7abcdef0u
#define COPY 0x6d000000u

static struct settings settings;
static struct session session, other;
static uint8_t *page; /* for arguments; some calls find it read-only */
static unsigned int failed, made;

/* ANSWER_FAILS: the driver makes it, and cannot say so, as its answer has no place. */
enum way {
	NO_SOURCE,
	NO_SOURCE_CLIENT,
	NO_CLIENT,
	HANDLE_OF_MEMORY,
	HANDLE_OF_DEVICE,
	BELOW_SUBDEVICE,
	ANSWER_FAILS,
	WAYS
};

struct dup {
	uint32_t client, parent, handle, source_client, source;
};

static void try(const struct dup *dup, bool answer_fails)
{
	struct rm_ioctl io =
		rm_dup_ioctl(settings.abi, dup->client, dup->parent, dup->handle, dup->source_client, dup->source);
	uint32_t status;

	memcpy(page, io.data, io.bytes);
	if (answer_fails)
		mprotect(page, 4096, PROT_READ);
	status = driver_call(&settings, session.ctl, io.nr, page, io.bytes);
	mprotect(page, 4096, PROT_READ | PROT_WRITE);
	if (status == NV_OK)
		status = get32(page, io.status);
	if (status == NV_OK)
		made++;
	else
		failed++;
}

/* Duplicate each in turn; each new object has a handle of its own. */
static void fail_all(uint32_t memory, uint32_t round)
{
	const struct dup good = { session.client, session.device, COPY + round, session.client, memory };
	struct dup dups[] = { good, good, good, good, good, good, good };
	uint32_t way;

	dups[NO_SOURCE].source = NOBODY;
	dups[NO_SOURCE_CLIENT].source_client = NOBODY;
	dups[NO_CLIENT].client = NOBODY;
	dups[HANDLE_OF_MEMORY].handle = memory;
	dups[HANDLE_OF_DEVICE].handle = session.device;
	dups[BELOW_SUBDEVICE].parent = session.subdevice;
	for (way = 0; way < WAYS; way++)
		try(&dups[way], way == ANSWER_FAILS);
}

/* In the client of the memory, in another one that has nothing, and of what is not there either. */
static void below_nobody(uint32_t memory)
{
	struct session keep = session;
	const struct dup own = { session.client, NOBODY, COPY, session.client, memory };
	const struct dup none = { session.client, 0, COPY, session.client, memory };
	const struct dup of_nobody = { session.client, NOBODY, COPY, session.client, NOBODY };
	const struct dup through_other = { other.client, NOBODY, COPY, session.client, memory };

	try(&own, false);
	try(&none, false);
	try(&of_nobody, false);
	session.ctl = other.ctl;
	try(&through_other, false);
	session = keep;
}

/* The driver makes a duplicate of what it imports. Returns the file, which has the memory until it is closed. */
static int import_below_nobody(void)
{
	struct session orphaned = session;
	int exported = -1;

	orphaned.device = NOBODY;
	if (export_memory(&session, 0, &exported) == NV_OK && import_memory(&orphaned, exported, 0) == NV_OK)
		made++;
	else
		failed++;
	return exported;
}

static void below_itself(uint32_t memory)
{
	const struct dup dup = { session.client, memory, COPY + ROUNDS, session.client, memory };

	try(&dup, false);
}

int main(int argc, char **argv)
{
	struct grant grant;
	uint32_t round;
	int exported = -1;

	client_begin(&settings, &argc, &argv, 1);
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return 2;
	client_open(&session, &settings);
	client_open(&other, &settings);
	if (memory_alloc(&session, strtoull(argv[0], NULL, 0), &grant) != NV_OK)
		return 1;
	if (argc > 1 && strcmp(argv[1], "below") == 0)
		below_itself(grant.handle);
	if (argc > 1 && strcmp(argv[1], "parentless") == 0) {
		below_nobody(grant.handle);
		exported = import_below_nobody();
	}
	for (round = 0; argc == 1 && round < ROUNDS; round++)
		fail_all(grant.handle, round);
	session_drop(&other);
	printf("failed=%u made=%u\n", failed, made);
	client_next();
	printf("freed status=0x%x\n", session_free(&session, grant.handle));
	client_next();
	close(exported);
	printf("closed status=0x%x\n", session_free(&session, session.client));
	client_next();
	return 0;
}
