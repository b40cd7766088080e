/* Preloaded into every process whose clock the proof sets: adds an offset to the wall clock, and to nothing else.

   PostgreSQL reads its clock in the handler of its timer signal, which may interrupt another reading of the clock. So
   nothing here allocates, locks or keeps a state: the offset, in microseconds, lies in a file that is mapped once and
   that all processes of a machine share. They see a step at once. libfaketime answers such a nested reading with the
   true time, and calls malloc in the handler: the server's timers ran early or late by the whole offset, and its heap
   was corrupted. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t no_offset = 0;
static const volatile int64_t *offset = &no_offset;

__attribute__((constructor)) static void map_offset(void)
{
    const char *path = getenv("EVERWHEN_PROOF_CLOCK");
    int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED)
        offset = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *at)
{
    int result = (int)syscall(SYS_clock_gettime, clock, at);
    if (result != 0 || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
        return result;
    int64_t micros = *offset;
    at->tv_sec += micros / 1000000;
    at->tv_nsec += micros % 1000000 * 1000;
    if (at->tv_nsec < 0) {
        at->tv_sec -= 1;
        at->tv_nsec += 1000000000;
    } else if (at->tv_nsec >= 1000000000) {
        at->tv_sec += 1;
        at->tv_nsec -= 1000000000;
    }
    return 0;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    if (at != NULL)
        *at = now.tv_sec;
    return now.tv_sec;
}
