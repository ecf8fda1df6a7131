// SPDX-License-Identifier: Apache-2.0
/* cgpu-probe [--dev DIR] WORD…: makes the calls to the driver that the words name, and reports the results. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "probe.h"

static const char help[] =
	"usage: cgpu-probe [--dev DIR] WORD...\n"
	"Talks to the NVIDIA driver through DIR/nvidiactl and DIR/nvidiaN (DIR is /dev), word by word, and prints\n"
	"one line per step. Sizes are bytes; 64K, 2M, 6G can be written. Memory still held is freed at the end.\n"
	"\n"
	"settings, until changed\n"
	"  gpu=N               the card, by minor number (0)\n"
	"  via=rm64|rm21|heap|range|tiled   how memory is asked for: RM_ALLOC in either form, or VID_HEAP_CONTROL by size,\n"
	"                      in a range, or by height and pitch (rm64)\n"
	"  page=default|4k|64k|2m|512m   page size asked for\n"
	"  xfer[=off]          wrap every call in the transfer wrapper\n"
	"  magic=BYTE dir=0..3 magic byte and direction bits of the ioctl number (0x46, 3)\n"
	"  handles=own|auto    who chooses the handles of memory (own)\n"
	"  expect=STATUS       the next step must answer this; expect-errno=N: must fail with it\n"
	"steps\n"
	"  info[=all]          sizes of the card by FB_GET_INFO v1 and V2, VID_HEAP INFO and region info\n"
	"  count               cards, and what is held here\n"
	"  pids                processes on the card and their memory\n"
	"  alloc=SIZE[:PAGE]   memory of the card; host=SIZE: of the host; class=N: an object of any class\n"
	"  context[=N]         N channel groups of the graphics engine, held like memory (1)\n"
	"  pin=SIZE            memory of this process for the card to use, by RM_ALLOC_MEMORY or VID_HEAP_CONTROL\n"
	"  fill=SIZE[:PAGE]    as often as it goes\n"
	"  free[=last|first|all|N]\n"
	"  managed=SIZE        managed memory, mapped and not touched; unmanaged: the last of it unmapped\n"
	"  dup                 a second handle to the last memory; surface: a semaphore surface of it\n"
	"  share=TYPE[:TARGET[:CLIENT:HANDLE]]   who may duplicate the last memory, or another: a type of the driver's\n"
	"  dup-of=CLIENT:HANDLE   a handle to another client's\n"
	"  export[=N]          the last memory, or a list of the last N, on a new descriptor (100 and up)\n"
	"  import[=N]          one from that descriptor, or a list of N\n"
	"  take=[PID:]FD       a copy of another descriptor in its place\n"
	"  close-export        close the last descriptor of an export\n"
	"  channel-off=CLIENT:CHANNEL   take a channel off its runlist\n"
	"  group[=CHANNELS[:ENGINE]]   a channel group with channels, on its runlist (1; engine 1\n"
	"                      is that of graphics and compute, 9 to 18 are those for copies)\n"
	"  submit=COUNT:TIME[:GRAIN]   kernels of a length in each channel of the last group, which can be preempted after\n"
	"                      each GRAIN, 0: not before their end (1ns); times have ns, us, ms or s behind them\n"
	"  busy=TIME:TIME[:GRAIN[:PROCESSES]]   so long, kernels of a length in all channels of all groups, or in a group\n"
	"                      each of so many processes\n"
	"  figures             of each group\n"
	"  schedule=0|1 bind=ENGINE slice=USEC preempt=0|1 interleave=0..2 realtime=0|1   of the last group\n"
	"  schedule-channel=0|1 interleave-channel=0..2 restart[=1] properties=USEC   of its last channel\n"
	"  disable enable      its channels\n"
	"  runlist-policy=0..2 compute-policy=0..3   of the card; scheduling: tell slice and compute policy\n"
	"  samples             how busy the card was with which process, in hundredths of a percent\n"
	"  fork=N:SIZE[:fill][:nest]   N processes allocate at once and hold; threads=... alike\n"
	"  unshare=SIZE        from a thread with its own descriptor table\n"
	"  churn=N:SIZE[:USEC] N allocations while SIGALRM comes every USEC microseconds\n"
	"  close               drop nvidiactl without freeing; the next step opens a new one\n"
	"  hold[=SECONDS]      wait; without a number until stdin ends; SIGTERM ends it early\n"
	"  exit-dirty          leave at once, freeing nothing\n"
	"exit status: 0 all as asked, 3 a refusal (or not the expected one), 2 a word not understood, 1 no driver\n";

static bool start(struct probe *probe)
{
	int ctl = driver_open(&probe->settings, "nvidiactl");
	uint32_t gpu;

	if (ctl < 0) {
		fprintf(stderr, "cgpu-probe: %s/nvidiactl: %s\n", probe->settings.dev, strerror(errno));
		return false;
	}
	if (!driver_version(&probe->settings, ctl)) {
		fprintf(stderr, "cgpu-probe: %s/nvidiactl does not answer with a known driver version\n",
			probe->settings.dev);
		close(ctl);
		return false;
	}
	close(ctl);
	for (gpu = 0; gpu < RM_MAX_GPUS; gpu++)
		session_init(&probe->sessions[gpu], &probe->settings, gpu);
	return true;
}

int main(int argc, char **argv)
{
	static const struct settings defaults = {
		.dev = "/dev", .magic = NV_IOCTL_MAGIC, .direction = 3, .own_handles = true
	};
	struct probe probe = { .settings = defaults, .uvm = -1, .exported = -1 };
	int i = 1;
	uint32_t gpu;

	if (argc < 2 || strcmp(argv[1], "--help") == 0)
		return fputs(help, argc < 2 ? stderr : stdout), argc < 2 ? 2 : 0;
	if (strcmp(argv[1], "--dev") == 0 && argc > 2) {
		probe.settings.dev = argv[2];
		i = 3;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!start(&probe))
		return 1;
	for (; i < argc; i++) {
		if (!probe_run(&probe, argv[i])) {
			fprintf(stderr, "cgpu-probe: %s: not understood; words are listed by: cgpu-probe --help\n",
				argv[i]);
			return 2;
		}
	}
	for (gpu = 0; gpu < RM_MAX_GPUS; gpu++)
		session_close(&probe.sessions[gpu]);
	return probe.refused ? 3 : 0;
}
