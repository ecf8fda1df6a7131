// SPDX-License-Identifier: Apache-2.0
/* Checks the driver's answers about processes with memory, and the life of memory with two handles. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define NOBODY 0xdead0001u
#define NO_INDEX 0xfffeu
#define NO_PROCESS 0xffffffffu
/* Bits of the driver's answer to a process about another process. */
#define IN_THE_LIST 1
#define WITH_MEMORY 2
#define NO_ANSWER 4
/* The first pid namespace of a machine: PROC_PID_INIT_INO, include/linux/proc_ns.h */
#define FIRST_PID_NAMESPACE 0xeffffffcu

static u32 listed(struct session *session, pid_t process, bool *found)
{
	const struct nv_layout_NV2080_CTRL_GPU_GET_PIDS_PARAMS *at = &session->abi->NV2080_CTRL_GPU_GET_PIDS_PARAMS;
	u8 *params = rm_params(session, at->bytes);
	u32 room = (u32)(at->bytes - at->pidTbl) / 4, status, count, one, i;

	/* Otherwise the number of a process could be taken for the count, and pass where it is small. */
	for (i = 0; i < room; i++)
		put32(params + 4 * i, at->pidTbl, NO_PROCESS);
	put32(params, at->idType, NV2080_CTRL_GPU_GET_PIDS_ID_TYPE_CLASS);
	put32(params, at->id, NV20_SUBDEVICE_0);
	status = rm_control(session, session->subdevice, NV2080_CTRL_CMD_GPU_GET_PIDS, at->bytes);
	count = get32(params, at->pidTblCount);
	*found = false;
	if (status == NV_OK && count > room)
		return call_unlike(session, "%u processes, which do not fit into the list", count);
	for (i = 0; status == NV_OK && i < count; i++) {
		one = get32(params + 4 * i, at->pidTbl);
		if (one == NO_PROCESS)
			return call_unlike(session, "%u processes, but the list has %u", count, i);
		*found = *found || one == (u32)process;
	}
	return status;
}

static u32 held_by(struct session *session, pid_t process, u64 *bytes)
{
	const __auto_type at = &session->abi->NV2080_CTRL_GPU_GET_PID_INFO_PARAMS;
	const struct nv_layout_NV2080_CTRL_GPU_PID_INFO *entry = &session->abi->NV2080_CTRL_GPU_PID_INFO;
	u8 *params = rm_params(session, at->bytes), *one = params + at->pidInfoList + entry->bytes;
	u32 status;

	/* The first question has an unknown index; the second is the real one. */
	put32(params, at->pidInfoListCount, 2);
	put32(params + at->pidInfoList, entry->pid, (u32)process);
	put32(params + at->pidInfoList, entry->index, NO_INDEX);
	put32(params + at->pidInfoList, entry->result, CALL_SILENT);
	put32(one, entry->pid, (u32)process);
	put32(one, entry->index, NV2080_CTRL_GPU_PID_INFO_INDEX_VIDEO_MEMORY_USAGE);
	put32(one, entry->result, CALL_SILENT);
	status = rm_control(session, session->subdevice, NV2080_CTRL_CMD_GPU_GET_PID_INFO, at->bytes);
	*bytes = get64(one, entry->data_vidMemUsage_memPrivate) + get64(one, entry->data_vidMemUsage_memSharedOwned) +
		get64(one, entry->data_vidMemUsage_memSharedDuped);
	if (status == NV_OK &&
		(get32(params + at->pidInfoList, entry->result) == NV_OK ||
			get32(params + at->pidInfoList, entry->result) == CALL_SILENT))
		return call_unlike(session, "a question with an unknown index was answered");
	return status != NV_OK ? status : get32(one, entry->result);
}

static bool in_first_namespace(void)
{
	struct stat about;

	return stat("/proc/self/ns/pid", &about) == 0 && about.st_ino == FIRST_PID_NAMESPACE;
}

enum verdict check_process(struct session *session)
{
	u64 before = 0, with = 0, after = 0;
	bool found = false;
	u32 status;

	session->request = (struct request){ VIA_RM64, NVOS32_ATTR_PAGE_SIZE_BIG, 7 * 64 * KIB };
	status = held_by(session, getpid(), &before);
	if (status == NV_OK)
		status = memory_take(session);
	if (status == NV_OK)
		status = listed(session, getpid(), &found);
	if (status == NV_OK)
		status = held_by(session, getpid(), &with);
	if (status == NV_OK)
		status = memory_give(session);
	if (status == NV_OK)
		status = held_by(session, getpid(), &after);
	if (status != NV_OK)
		return verdict_of(session, status);
	if (found && with - before == session->memory.size && after == before)
		return PASSED;
	if (!in_first_namespace())
		return verdict_skipped(session, "needs the machine's first pid namespace");
	return verdict_failed(session,
		"process %d is %sin the list, with %llu bytes, then %llu, then %llu; %llu were had", getpid(),
		found ? "" : "not ", LLU(before), LLU(with), LLU(after), LLU(session->memory.size));
}

static int told_of(struct session *session, pid_t process)
{
	bool found = false;
	u64 bytes = 0;

	if (listed(session, process, &found) != NV_OK)
		return NO_ANSWER;
	if (!session->mig && held_by(session, process, &bytes) != NV_OK)
		return NO_ANSWER;
	return (found ? IN_THE_LIST : 0) | (bytes ? WITH_MEMORY : 0);
}

/* A child in a pid namespace of its own asks the driver about this process. */
static int look_from_inside(struct session *session, pid_t us)
{
	pid_t child = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, NULL, NULL, NULL, 0);
	int result = 0;

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(told_of(session, us));
	}
	if (child < 0)
		return -1;
	while (waitpid(child, &result, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(result) ? WEXITSTATUS(result) : NO_ANSWER;
}

enum verdict check_namespace(struct session *session)
{
	int wanted = session->abi->pids_of_caller ? 0 : IN_THE_LIST, inside;
	bool found = false;
	u32 status;

	session->request = (struct request){ VIA_RM64, NVOS32_ATTR_PAGE_SIZE_BIG, 7 * 64 * KIB };
	/* A card in MIG mode gives no memory. */
	status = session->mig ? NV_OK : memory_take(session);
	if (status == NV_OK)
		status = listed(session, getpid(), &found);
	if (status != NV_OK)
		return verdict_of(session, status);
	if (!session->abi->pid_info_of_caller && !session->mig)
		wanted |= WITH_MEMORY;
	if (!found && !in_first_namespace())
		return verdict_skipped(session, "needs the machine's first pid namespace");
	inside = look_from_inside(session, getpid());
	if (inside < 0)
		return verdict_skipped(session, "no pid namespace of its own: %s", strerror(errno));
	if (found && inside == wanted)
		return PASSED;
	if (inside == NO_ANSWER)
		return verdict_failed(session, "no answer");
	return verdict_failed(session,
		"a process outside of the caller's namespace is %sin the list, and has %s memory",
		inside & IN_THE_LIST ? "" : "not ", inside & WITH_MEMORY ? "its" : "no");
}

static u32 duplicate(struct session *session)
{
	u32 handle = session->next_handle++, wanted = handle, status;

	status = rm_dup(session, session->client, session->memory.handle, &handle);
	if (status != NV_OK)
		return status;
	session->copy = handle;
	return call_judge_handle(session, handle, wanted);
}

/* kmod/daemon/libcgpud/driver.c draws conclusions from these answers. */
static enum verdict check_strangers(struct session *session)
{
	u32 handle = session->next_handle++, status;

	status = rm_dup(session, session->client, NOBODY, &handle);
	if (status != NV_ERR_OBJECT_NOT_FOUND)
		return verdict_failed(session, "of an object that is not there: %s", call_text(session, status));
	status = rm_dup(session, NOBODY, NOBODY, &handle);
	if (status != NV_ERR_INVALID_OBJECT_HANDLE && status != NV_ERR_INVALID_CLIENT)
		return verdict_failed(session, "of a client that is not there: %s", call_text(session, status));
	return PASSED;
}

enum verdict check_duplicate(struct session *session)
{
	static const struct stage stages[] = {
		{ "the allocation", memory_take, true },
		{ "the duplicate", duplicate, true },
		{ "the free of the first handle", memory_give, true },
		{ "the free of the second handle", session_free_copy, false },
	};
	enum verdict verdict;

	session->request = (struct request){ VIA_RM64, NVOS32_ATTR_PAGE_SIZE_BIG, 9 * 64 * KIB };
	verdict = STAGES(session, stages);
	return verdict == PASSED ? check_strangers(session) : verdict;
}
