/*
 * Preloaded into a server, this moves its wall clock by the nanoseconds that the file
 * $REDISTEST_CLOCK has (8 bytes). The monotonic clock stays that of the machine, as if an
 * operator had set the other. It calls the kernel instead of the C library's own functions:
 * looking those up allocates memory, whose allocator reads the clock.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *ahead;

__attribute__((constructor)) static void open_file(void) {
	const char *path = getenv("REDISTEST_CLOCK");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	void *memory = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, fd, 0);
	if (memory != MAP_FAILED)
		ahead = memory;
	close(fd);
}

int clock_gettime(clockid_t id, struct timespec *at) {
	int result = syscall(SYS_clock_gettime, id, at);
	if (result == 0 && ahead && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
		int64_t sum = at->tv_nsec + *ahead % 1000000000;
		at->tv_sec += *ahead / 1000000000;
		if (sum < 0) {
			sum += 1000000000;
			at->tv_sec--;
		} else if (sum >= 1000000000) {
			sum -= 1000000000;
			at->tv_sec++;
		}
		at->tv_nsec = sum;
	}
	return result;
}

int gettimeofday(struct timeval *at, void *zone) {
	(void)zone;
	struct timespec now;
	int result = clock_gettime(CLOCK_REALTIME, &now);
	at->tv_sec = now.tv_sec;
	at->tv_usec = now.tv_nsec / 1000;
	return result;
}

time_t time(time_t *at) {
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (at)
		*at = now.tv_sec;
	return now.tv_sec;
}
