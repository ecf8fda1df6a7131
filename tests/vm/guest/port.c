// SPDX-License-Identifier: Apache-2.0
/* Frames over the virtio port. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent.h"

static int port;
static char *buffer;
static size_t fill, space;

void port_open(const char *path)
{
	port = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (port < 0)
		machine_end("cannot open the port");
}

int port_fd(void)
{
	return port;
}

static void send_all(const char *data, size_t len)
{
	while (len) {
		ssize_t done = write(port, data, len);

		if (done < 0 && errno == EAGAIN) {
			struct pollfd room = { .fd = port, .events = POLLOUT };

			poll(&room, 1, -1);
			if (room.revents & POLLHUP)
				machine_end("the host has gone");
			continue;
		}
		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			machine_end("cannot write to the port");
		data += done;
		len -= (size_t)done;
	}
}

void port_send(uint32_t id, uint32_t type, const void *data, size_t len)
{
	static char whole[sizeof(struct frame) + CHUNK];
	struct frame frame = { .length = (uint32_t)len, .job = id, .type = type };

	/* One write, since each is a request to the device of its own. */
	memcpy(whole, &frame, sizeof(frame));
	if (len)
		memcpy(whole + sizeof(frame), data, len);
	send_all(whole, sizeof(frame) + len);
}

void port_send_number(uint32_t id, uint32_t type, uint32_t number)
{
	port_send(id, type, &number, sizeof(number));
}

static void need_space(size_t more)
{
	if (space - fill >= more)
		return;
	space = fill + more;
	buffer = realloc(buffer, space);
	if (!buffer)
		machine_end("out of memory");
}

static void handle_frames(void (*handle)(const struct frame *frame, const char *payload))
{
	size_t at = 0;

	while (fill - at >= sizeof(struct frame)) {
		struct frame frame;

		memcpy(&frame, buffer + at, sizeof(frame));
		if (fill - at - sizeof(frame) < frame.length)
			break;
		handle(&frame, buffer + at + sizeof(frame));
		at += sizeof(frame) + frame.length;
	}
	memmove(buffer, buffer + at, fill - at);
	fill -= at;
}

void port_receive(void (*handle)(const struct frame *frame, const char *payload))
{
	ssize_t done;

	need_space(CHUNK);
	done = read(port, buffer + fill, CHUNK);
	if (done < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (done <= 0)
		machine_end("the host has gone");
	fill += (size_t)done;
	handle_frames(handle);
}
