/* SPDX-License-Identifier: Apache-2.0 */
/* The cards' own view of owners of memory. The engine is not asked. */
#ifndef TEST_LAYOUTS_HOLDINGS_H
#define TEST_LAYOUTS_HOLDINGS_H

#include <stdbool.h>
#include <stdint.h>

#define HOLDINGS_CARDS 2u

struct sim;
struct holdings;

struct holdings *holdings_new(struct sim *sim);
void holdings_free(struct holdings *holdings);
/* Walk over all that the cards' clients refer to. Memory that was not there before is whose call was the last. False: the
 * cards' sums say something else than the walk. */
bool holdings_look(struct holdings *holdings, uint32_t whose);
/* Bytes of memory that an owner made and a client still refers to. */
uint64_t holdings_of(const struct holdings *holdings, uint32_t whose, uint32_t card);

bool holdings_has_client(const struct holdings *holdings, uint32_t client);

/* Calls of nvidia-uvm.ko with a client of the kernel (src/nvidia/src/kernel/rmapi/nv_gpu_ops.c): 0, or the driver's
 * status. */
uint32_t holdings_uvm_dup(struct holdings *holdings, uint32_t client, uint32_t handle, uint32_t *copy);
uint32_t holdings_uvm_take(struct holdings *holdings, uint32_t card, uint64_t bytes, uint32_t *handle);
void holdings_uvm_free(struct holdings *holdings, uint32_t handle);

#endif
