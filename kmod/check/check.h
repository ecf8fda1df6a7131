/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgpu-check-driver: whether a driver understands calls in the layouts that the engine would use for its version. The
 * program makes the calls outside of any slice, and looks at what the driver wrote and at the card's free memory. It
 * allocates little and frees it; when the process ends, the driver frees the rest.
 */
#ifndef CGPU_CHECK_H
#define CGPU_CHECK_H

#include <stdbool.h>

#include "cgpu_core.h"
#include "rm_structs.h"

/* No status of the driver: the call itself failed, with errno in the low bits. */
#define CALL_ERRNO 0x80000000u
/* The driver wrote bytes that it may not write; strange_at of the session says where. */
#define CALL_STRANGE 0x40000000u
/* Something else is not as expected; `unlike` of the session says what. */
#define CALL_UNLIKE 0x20000000u
/* Value of a status field before a call; it stays if the driver wrote no status, or wrote it elsewhere. */
#define CALL_SILENT 0x5e1f7e57u

#define CHECK_MAX_GPUS 32u
#define DETAIL_BYTES 256u
#define KIB 1024ull
#define LLU(value) ((unsigned long long)(value))

enum verdict { PASSED, FAILED, SKIPPED };

/* Memory that ends at an unreadable page; the bytes before a structure in it have to stay as they are. */
struct guarded {
	u8 *area, *end;
	/* The structure that was placed last. */
	u8 *placed;
};

/* A part of a structure that the driver may write. */
struct span {
	u16 at, bytes;
};

struct driver {
	const char *dev;
	char version[64];
	const char *rows; /* versions that are not in the table: cgpu_abi_choose() */
	const struct nv_abi_version *table;
	enum cgpu_abi_source source;
	const struct nv_abi *abi;
	struct nv_abi row;
	/* Open all the time: the driver shuts down a card without an open node, and starting it again takes seconds. */
	int nodes[CHECK_MAX_GPUS];
	/* How often a check is repeated while its figures do not agree. */
	u32 attempts;
	u32 failures, tested;
};

/* Memory that a check asks for; page: NVOS32_ATTR_PAGE_SIZE_*. */
struct request {
	enum via via;
	u32 page;
	u64 size;
};

/* Memory of the card: its handle, the size that the driver gave, and the bytes that it takes from the card. */
struct grant {
	u32 handle;
	u64 size, charge;
};

/* Addresses of UVM's, in an area that is reserved for them; area NULL: none. */
struct range {
	u8 *area;
	size_t area_bytes;
	u64 base, bytes;
};

/* One client with a device and a subdevice on one card. */
struct session {
	struct driver *driver;
	const struct nv_abi *abi;
	/* number: the driver's device instance of the card */
	u32 minor, gpu_id, number, client, device, subdevice, next_handle;
	bool mig;
	int ctl, card, uvm, uvm_mm;
	u8 uuid[16];
	struct guarded top, params, list;
	u32 strange_at;
	/* Calls go in the transfer wrapper, NV_ESC_IOCTL_XFER_CMD. */
	bool wrapped;
	char unlike[160];
	char detail[DETAIL_BYTES];
	/* Objects that the stages of a check have made; 0 or -1: none */
	struct request request;
	/* Bytes by which free memory may fall more than expected. */
	u64 slack;
	struct grant memory;
	u32 copy, space;
	int exported;
	/* Objects of a list that is exported and imported; 0: one object, without a list. */
	u32 listed;
	struct range range;
};

typedef enum verdict (*check_fn)(struct session *session);

/* guarded.c */
bool guarded_make(struct guarded *guarded);
void guarded_drop(struct guarded *guarded);
/* Room for a structure, zeroed, that ends where the guard begins; its last `cut` bytes would lie in the guard. */
u8 *guarded_place(struct guarded *guarded, size_t bytes, size_t cut);
/* Whether the bytes before the structure that was placed last are as they were. */
bool guarded_intact(const struct guarded *guarded);

/* call.c */
int node_open(const struct driver *driver, const char *node);
int node_open_card(const struct driver *driver, u32 minor);
/* Each answers NV_OK, a status of the driver, or one of the CALL_ values. */
u32 call_escape(struct session *session, int fd, u32 nr, u8 *data, size_t bytes, const struct span *written);
/* A call of nvidia-uvm with its status at status_at. `also`: bytes that the driver may write besides. */
u32 call_uvm(struct session *session, int fd, u32 command, u8 *data, size_t bytes, u16 status_at);
u32 call_uvm_writes(
	struct session *session, int fd, u32 command, u8 *data, size_t bytes, u16 status_at, const struct span *also);
#define UVM(session, fd, call, data)                                                       \
	call_uvm(session, fd, UVM_##call, data, (session)->abi->UVM_##call##_PARAMS.bytes, \
		(session)->abi->UVM_##call##_PARAMS.rmStatus)
/* The same with the structure's last byte out of reach. */
u32 call_uvm_cut(struct session *session, int fd, u32 command, const u8 *data, size_t bytes);
/* An answer in words, valid until the next call. */
const char *call_text(const struct session *session, u32 status);

u32 call_unlike(struct session *session, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Whether the driver has refused, with this status. expected 0: with any. */
bool call_refused(u32 status, u32 expected);
/* Whether an object has the handle that was asked for. */
u32 call_judge_handle(struct session *session, u32 handle, u32 wanted);

/* Calls of the resource manager. Structures behind pointers lie in session->params. */
/* Makes a call. `written`: bytes that the driver may write besides status and handle; an empty span ends it. */
u32 rm_make(struct session *session, struct rm_ioctl *io, const struct span *written);
u32 rm_alloc(struct session *session, enum via via, u32 parent, u32 class_id, u32 bytes, u32 *handle);
u32 rm_control(struct session *session, u32 object, u32 command, u32 bytes);
u32 rm_free(struct session *session, u32 handle);
u32 rm_dup(struct session *session, u32 source_client, u32 source, u32 *handle);
/* Room for the structure behind a pointer. */
static inline u8 *rm_params(struct session *session, size_t bytes)
{
	return guarded_place(&session->params, bytes, 0);
}

/* session.c */
enum verdict check_open(struct session *session);
void session_close(struct session *session);
/* Device and subdevice below the client. */
u32 session_make_objects(struct session *session, enum via via);
u32 session_free_copy(struct session *session);
u32 session_free_range(struct session *session);
/* Frees the objects that the stages of a check have left. */
void session_clean(struct session *session);

/* stages.c: the steps of a check, and how far free memory has to have fallen after each */
struct stage {
	const char *what;
	u32 (*run)(struct session *session);
	/* Whether session->memory is allocated after this step. */
	bool held;
};
/* Runs them, again where free memory does not change as expected: others may use the card too. */
enum verdict stages_run(struct session *session, const struct stage *stages, size_t count);
#define STAGES(session, list) stages_run(session, list, sizeof(list) / sizeof((list)[0]))

/* verdict.c: each says why, for the check's line. */
enum verdict verdict_say(struct session *session, enum verdict verdict, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
#define verdict_failed(session, ...) verdict_say(session, FAILED, __VA_ARGS__)
#define verdict_skipped(session, ...) verdict_say(session, SKIPPED, __VA_ARGS__)
/* Passed when the status is NV_OK; else failed, with the status's words. */
enum verdict verdict_of(struct session *session, u32 status);

/* sizes.c */
u32 sizes_free(struct session *session, u64 *bytes);
enum verdict check_sizes(struct session *session);
enum verdict check_regions(struct session *session);

/* identity.c */
enum verdict check_identity(struct session *session);
enum verdict check_short_form(struct session *session);
enum verdict check_wrapper(struct session *session);

/* memory.c: by session->request */
u32 memory_take(struct session *session);
u32 memory_give(struct session *session);
/* Fills in a request as RM_ALLOC takes it, into session->params. */
u8 *memory_params(struct session *session, size_t cut);
/* A request as VID_HEAP_CONTROL takes it, and a call of it. */
struct rm_ioctl heap_allocation(struct session *session);
u32 heap_call(struct session *session, struct rm_ioctl *heap);
/* In the way of session->request. */
enum verdict check_memory(struct session *session);
enum verdict check_memory_cut(struct session *session);
enum verdict check_heap_egm(struct session *session);

/* refusals.c */
enum verdict check_refusals(struct session *session);
enum verdict check_heap_refusals(struct session *session);
enum verdict check_classes(struct session *session);
enum verdict check_old_call(struct session *session);
enum verdict check_group(struct session *session);

/* references.c */
enum verdict check_process(struct session *session);
enum verdict check_namespace(struct session *session);
enum verdict check_duplicate(struct session *session);

/* exports.c */
enum verdict check_export(struct session *session);
enum verdict check_export_list(struct session *session);
enum verdict check_export_room(struct session *session);

/* uvm.c, uvm_map.c */
enum verdict check_uvm_calls(struct session *session);
enum verdict check_uvm_map(struct session *session);

#endif
