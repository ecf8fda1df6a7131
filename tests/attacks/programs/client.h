/* SPDX-License-Identifier: Apache-2.0 */
/* What clients of the driver share in tests: their first calls, and how they wait for the next step. */
#ifndef ATTACK_CLIENT_H
#define ATTACK_CLIENT_H

#include "rm_client.h"

/* Room for the parameters of any class. */
#define CLIENT_PARAMS 256u

/* Takes "--dev DIR" from the front of the arguments, and what else the driver must be asked first. Ends the program
 * when there is no driver. */
void client_begin(struct settings *settings, int *argc, char ***argv);
/* A client with one card. Ends the program when it is refused. */
void client_open(struct session *session, const struct settings *settings);
/* Memory of the card under a handle: its call, with the parameters to be kept until then; and the status of it. */
struct rm_ioctl client_memory_ioctl(
	const struct session *session, uint32_t handle, uint8_t params[CLIENT_PARAMS], uint64_t bytes);
uint32_t client_memory(struct session *session, uint32_t handle, uint64_t bytes);
/* Another client's object under a handle. */
uint32_t client_dup(struct session *session, uint32_t handle, uint32_t source_client, uint32_t source);
/* Addresses for managed memory that nobody else uses, at the start of a piece of 2 MiB; NULL: there are none. */
uint8_t *client_reserve(uint64_t size);
/* Managed memory in an address space of nvidia-uvm's file; the offset of such a mapping is its address. */
bool client_map_managed(const struct settings *settings, int uvm, uint8_t *place, uint64_t size);
#define CLIENT_FILES_MAX 3u
/* Open files by a socket, with one byte of data. Receiving, the count is of those that fit. */
bool client_send_files(int sock, const int *files, size_t count);
bool client_receive_files(int sock, int *files, size_t count);
/* A socket with whoever connects at the path, whom the files are sent; the word is printed before that. -1: none. */
int client_hand_out(const char *path, const char *word, const int *files, size_t count);
/* The socket to whoever hands files out there; -1: none. */
int client_fetch(const char *path, int *files, size_t count);
/* As often as it goes; how much that was. */
uint64_t client_fill(struct session *session, uint64_t piece);
/* Whoever started the program sends a line for the next step. Ends the program, whose descriptors go with it, at the
 * end of standard input. */
void client_next(void);
/* Keeps what there is until the program is killed. */
__attribute__((noreturn)) void client_rest(void);
/* Signals in the midst of calls, so often; 0: no more. flags: of sigaction(2), whether the kernel starts a call anew. */
void client_rain(int flags, int microseconds);
/* How many there were. */
long client_alarms(void);

#endif
