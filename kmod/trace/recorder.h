/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgpu-recorder: runs a command and writes the NVIDIA driver calls of its processes as JSON Lines. Of structures it
 * reads and writes only what the generated tables (nv_forms.h) allow; what a trace may hold is in docs/commands/cgpu-trace.md.
 */
#ifndef CGPU_RECORDER_H
#define CGPU_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include "nv_abi.h"
#include "nv_forms.h"

#define EXIT_OWN 125
#define EXIT_CANNOT_RUN 126
#define EXIT_NOT_FOUND 127
#define NOTES_MAX 32u
#define CAPTURE_BYTES 16384u /* the largest structure that the driver takes */
#define LIST_MAX 128u /* entries of one list of memory sizes */
#define LIST_ENTRY 8u

/* --- options.c --- */

struct options {
	const char *output;
	const char *dev;
	const char *driver; /* NULL: asked for */
	bool every_call;
	const char *notes[NOTES_MAX];
	unsigned int note_count;
	char **command;
};
/* -1: go on; else the exit status. */
int options_parse(int argc, char **argv, struct options *options);

/* --- version.c --- */

struct version {
	char driver[64]; /* "" when it is not known */
	/* The version whose layouts are taken. key 0, abi NULL: structures are not read. */
	char layouts[64];
	uint64_t key;
	const struct nv_abi *abi;
};
/* Finds the driver's version and the newest known layouts not newer than it. False: --driver is no version. */
bool version_find(struct version *version, const struct options *options);
const struct nv_form *version_form(const struct version *version, uint16_t form);

/* --- nodes.c: which open files are the driver's --- */

enum node_kind { NODE_NONE, NODE_CTL, NODE_CARD, NODE_UVM, NODE_UVM_TOOLS, NODE_MODESET };
#define SIMULATED_MAX 40u
#define MAJORS 4096u

struct node {
	enum node_kind kind;
	unsigned int card;
};

struct simulated {
	struct node node;
	uint64_t device, inode;
};

struct nodes {
	struct simulated simulated[SIMULATED_MAX];
	unsigned int simulated_count;
	unsigned int uvm_major; /* 0: not known yet */
	bool asked[MAJORS];
};
void nodes_init(struct nodes *nodes, const char *dev);
struct node nodes_identify(struct nodes *nodes, pid_t tid, int fd);
/* By a path's last part, for an open that failed. */
struct node node_of_name(const char *name);
/* Room for "nvidia" and a number. */
#define NODE_NAME_BYTES 32u
void node_name(const struct node *node, char name[NODE_NAME_BYTES]);

/* --- calls.c: system calls that are followed --- */

enum op {
	OP_NONE,
	OP_OPEN,
	OP_OPENAT,
	OP_CLOSE,
	OP_CLOSE_RANGE,
	OP_DUP,
	OP_DUP2,
	OP_FCNTL,
	OP_MMAP,
	OP_MUNMAP,
	OP_IOCTL,
	OP_UNSHARE,
};
enum op op_of(uint32_t arch, uint64_t number);
/* NULL: the native one. */
const char *abi_name(uint32_t arch, uint64_t number);
/* Only those calls stop. 0 or -1 with errno. */
int filter_install(void);

/* --- files.c: open files, and the descriptors that lead to them --- */

struct open_file {
	unsigned int number;
	unsigned int refs; /* descriptors and mappings */
	struct node node;
};

struct slot {
	struct slot *next;
	int fd;
	struct open_file *file;
};

/* A table of descriptors; threads share one. */
struct table {
	unsigned int refs;
	struct slot *slots;
};

struct mapping {
	struct mapping *next;
	pid_t process;
	unsigned int number;
	uint64_t start, length;
	struct open_file *file;
};

struct files {
	struct mapping *mappings;
	unsigned int last_file, last_mapping;
};
struct table *table_new(void);
struct table *table_copy(const struct table *from);
struct slot *slot_find(const struct table *table, int fd);
/* NULL when out of memory. */
struct slot *slot_add(struct table *table, int fd, struct open_file *file);
/* Returns whether that was the file's last reference; the file is gone then. */
bool slot_drop(struct table *table, int fd);
/* For a task that shares its table no longer: a copy, where others have it too. */
struct table *table_own(struct table *table);
struct open_file *file_new(struct files *files, const struct node *node);
struct mapping *mapping_add(
	struct files *files, pid_t process, uint64_t start, uint64_t length, struct open_file *file);
/* The first one that overlaps. */
struct mapping *mapping_find(struct files *files, pid_t process, uint64_t start, uint64_t length);
bool mapping_drop(struct files *files, struct mapping *mapping);

/* --- capture.c: what a call's structures say --- */

struct capture {
	uint32_t nr, size;
	bool wrapped, known; /* known: the tables have the call */
	const char *name;
	uint64_t address, nested_address, list_address;
	const struct nv_form *form, *arm, *nested;
	uint32_t list_at, list_count; /* entries; list_at: where it lies in nested, when list_address is 0 */
	bool failed; /* memory could not be read */
	uint8_t top[CAPTURE_BYTES], params[CAPTURE_BYTES], list[LIST_MAX * LIST_ENTRY];
};
struct task;
void capture_read(struct capture *capture, const struct version *version, const struct task *task, enum node_kind kind,
	uint64_t command, uint64_t address);
/* Reads the same places again. */
bool capture_again(const struct capture *before, struct capture *after, const struct task *task);
uint64_t field_value(const uint8_t *data, const struct nv_field *field);

/* --- memory.c: memory of the observed, which may be such that a reader of it waits for ever --- */

/* At most CAPTURE_BYTES. False: it cannot be read, or not soon; then nothing is read of its process any more. */
bool memory_read(const struct task *task, uint64_t address, void *data, size_t bytes);
/* A path; false when it is not readable or too long. */
bool memory_text(const struct task *task, uint64_t address, char *text, size_t room);
/* The process has other memory by now, or has ended. */
void memory_forget(pid_t process);

/* --- tasks.c --- */

struct pending {
	enum op op;
	uint32_t arch;
	uint64_t number, args[6], start;
	unsigned int file_number;
	struct capture *capture;
};

struct task {
	struct task *next;
	pid_t tid, process;
	unsigned int process_number, number;
	struct table *table;
	struct pending pending;
};

struct recorder;
struct task *task_find(struct recorder *r, pid_t tid);
/* Adds a task. from: its parent; NULL: /proc tells. Returns NULL when out of memory. */
struct task *task_add(struct recorder *r, pid_t tid, const struct task *from);
/* status: as of waitpid(2). */
void task_gone(struct recorder *r, struct task *task, int status);
void task_exec(struct recorder *r, pid_t process);

/* --- output.c: one line at a time --- */

#define LINE_BYTES 65536u

struct line {
	size_t used;
	bool overflow, comma;
	char text[LINE_BYTES];
};

struct output {
	int fd;
	bool ready; /* false: nothing is written yet */
	int error; /* errno of the first write that failed: nothing is written any more */
	uint64_t start; /* nanoseconds */
	struct line line;
};
void output_open(struct output *output, int fd);
uint64_t clock_now(void);
void put_header(
	struct output *output, const struct version *version, const struct options *options, const char *command);
struct line *line_begin(struct output *output, const struct task *task, const char *call);
/* name NULL: an item of a list. */
void line_number(struct line *line, const char *name, uint64_t value);
void line_signed(struct line *line, const char *name, int64_t value);
void line_text(struct line *line, const char *name, const char *value);
void line_true(struct line *line, const char *name);
void line_null(struct line *line, const char *name);
void line_open(struct line *line, const char *name, char bracket);
void line_close(struct line *line, char bracket);
void line_end(struct output *output);

/* --- events.c, descriptors.c, ioctl.c: what is written --- */

struct recorder {
	struct options *options;
	struct version version;
	struct nodes nodes;
	struct files files;
	struct output output;
	struct task *tasks;
	unsigned int last_process, last_task;
	pid_t root;
	int root_status;
	int failure; /* pipe: why the command did not run */
	bool begun; /* the command runs */
	bool every_call; /* another filter hides calls from ours: stop at every call */
	struct capture scratch;
};
/* At the beginning of a call; whether its end is of interest. */
bool event_begin(struct recorder *r, struct task *task);
void event_end(struct recorder *r, struct task *task, int64_t result);
/* The task died in the call. */
void event_cut(struct recorder *r, struct task *task);
void event_close(struct recorder *r, const struct task *task, int fd, const char *by);
void event_unmap(struct recorder *r, const struct task *task, struct mapping *mapping, const char *by);
/* A line about a descriptor. */
struct line *event_line(
	struct recorder *r, const struct task *task, const char *call, int fd, const struct open_file *file);
void line_node(struct line *line, const struct node *node);
/* The file behind a descriptor; NULL: none of the driver's. */
struct open_file *event_file(struct recorder *r, struct task *task, int fd);
void ioctl_event(struct recorder *r, struct task *task, const int64_t *result);

/* --- loop.c --- */

/* Until all tasks have ended. */
void loop_run(struct recorder *r);
#define TRACE_OPTIONS                                                                                                 \
	(PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | \
		PTRACE_O_TRACEEXEC | PTRACE_O_TRACESECCOMP)

/* --- start.c --- */

void signals_of_interest(sigset_t *set);
int start_failure(const struct recorder *r);

/* Starts the command under observation. 0, or the exit status after one line of error. */
int start_command(struct recorder *r);

#endif
