/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of test programs that call the driver: first calls, memory, passing of open files, waiting for the test. */
#ifndef ATTACK_CLIENT_H
#define ATTACK_CLIENT_H

#include "rm_client.h"

/* At least the size of any class's allocation parameters. */
#define CLIENT_PARAMS 512u

/* Takes "--dev DIR" from the front of the arguments, fills in the settings and asks the driver for its version. Ends the
 * program when there is no driver, or fewer arguments than it needs. */
void client_begin(struct settings *settings, int *argc, char ***argv, int needed);
/* Opens a control file. Ends the program when that fails. */
int client_control_file(const struct settings *settings);
/* Makes a client that has one card open. Ends the program when the driver refuses one of the calls. */
void client_open(struct session *session, const struct settings *settings);
/* Memory of the card under a handle. The first function returns the call, which points to params; the second one makes the call and
 * returns the driver's status. */
struct rm_ioctl client_memory_ioctl(
	const struct session *session, uint32_t handle, uint8_t params[CLIENT_PARAMS], uint64_t bytes);
uint32_t client_memory(struct session *session, uint32_t handle, uint64_t bytes);
/* Each makes an object under a handle, and returns the driver's status: cached memory of the host, a device of the first card, a VA
 * space, a group on the graphics engine whose channels have that space, a channel with these parameters. */
uint32_t client_host_memory(struct session *session, uint32_t handle, uint64_t bytes);
uint32_t client_device(struct session *session, uint32_t handle);
uint32_t client_space(struct session *session, uint32_t handle);
uint32_t client_group(struct session *session, uint32_t device, uint32_t handle, uint32_t space);
uint32_t client_channel(struct session *session, uint32_t parent, uint32_t handle, uint8_t params[CLIENT_PARAMS]);
/* Duplicates another client's object under a handle; returns the driver's status. */
uint32_t client_dup(struct session *session, uint32_t handle, uint32_t source_client, uint32_t source);
/* Has the driver make memory of this process known to the card, as an object under a handle; returns the driver's status. */
uint32_t client_pin(struct session *session, uint32_t handle, void *memory, uint64_t bytes);
/* Readies a file of the driver for mmap(2) of an object's memory; returns the driver's status. */
uint32_t client_map_memory(struct session *session, uint32_t parent, uint32_t handle, int file, uint64_t bytes);
/* Maps a file that is ready; NULL: the kernel refuses that. */
volatile uint64_t *client_map_file(int file, uint64_t bytes);
/* Returns the first number of a mapping, and puts another one there, unless that is 0. 0: nothing is mapped there any more. */
uint64_t client_look(volatile uint64_t *at, uint64_t put);
/* Reserves unused addresses for managed memory, aligned to 2 MiB; NULL on failure. */
uint8_t *client_reserve(uint64_t size);
/* Maps managed memory on a file of nvidia-uvm, which requires that a mapping's file offset is its address. */
bool client_map_managed(const struct settings *settings, int uvm, uint8_t *place, uint64_t size);
#define CLIENT_FILES_MAX 3u
/* Pass open files over a socket, with one byte of data. For receiving, count is how many files the array takes. */
bool client_send_files(int sock, const int *files, size_t count);
bool client_receive_files(int sock, int *files, size_t count);
/* Prints the word, waits for the first process that connects at the path, and sends it the files. Returns the socket, -1 on failure. */
int client_hand_out(const char *path, const char *word, const int *files, size_t count);
/* Connects to client_hand_out() of another process and receives its files. Returns the socket, -1 on failure. */
int client_fetch(const char *path, int *files, size_t count);
/* Allocates pieces of memory until the driver refuses. Returns the bytes allocated. */
uint64_t client_fill(struct session *session, uint64_t piece);
/* Waits for a line on standard input, which the test sends for the next step. Exits at the end of the input, which closes all files. */
void client_next(void);
/* Waits until the program is killed, so that the program keeps its memory and files. */
__attribute__((noreturn)) void client_rest(void);
/* Sends this process a SIGALRM every so many microseconds, to interrupt its calls; 0: no more. flags: those of sigaction(2), such as
 * SA_RESTART. */
void client_rain(int flags, int microseconds);
/* Number of these signals that have come. */
long client_alarms(void);

#endif
