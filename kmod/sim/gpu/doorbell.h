/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The doorbell of a simulated card's channels. This is the simulation's own, and no part of any driver: a client of a
 * real card writes work to memory, and tells the card by a store to a mapped page, without a call. Here write(2) on the
 * card's node takes the place of that store. As there, nothing that looks at driver calls sees it.
 *
 * write(2) takes one record, which launches `count` kernels; a count of 0 launches none. The file has to belong to the
 * channel's client: tied by NV_ESC_REGISTER_FD to the nvidiactl that the client was made on. A record is taken whole, or
 * not at all when the channel's queue has not as many places left: EAGAIN. EPERM: the client is not of this file; ENOENT:
 * it has no such channel on this card; EINVAL: not a record, a length of 0, more kernels than the queue has places,
 * nvidiactl.
 *
 * read(2) gives the figures of the channel of the last record that was written to the file, taken or not; ENODATA before
 * the first. So ask with a count of 0. Threads that share a file have to keep each other from writing in between.
 */
#ifndef CGPU_SIM_DOORBELL_H
#define CGPU_SIM_DOORBELL_H

#include <stdint.h>

/* Places in the queue of a channel, unless its gpFifoEntries says fewer. */
#define DOORBELL_QUEUE 1024u

struct doorbell {
	uint32_t client;
	uint32_t channel;
	uint64_t length; /* nanoseconds that each kernel takes */
	uint64_t grain; /* it can be preempted after each so many: 1: anywhere; 0: not before its end */
	uint32_t count;
	uint32_t zero;
};

struct doorbell_figures {
	uint64_t submitted;
	uint64_t completed;
	uint64_t queued; /* with what runs; submitted, less completed and these, was thrown away */
	uint64_t busy; /* nanoseconds that its kernels ran */
	uint64_t now; /* the card's time: CLOCK_MONOTONIC in nanoseconds */
};

#endif
