/* The kernel's clocks and randomness: see io/clock.h. */
#include "io/clock.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#include "proto/check.h"

static const int64_t second_ns = 1000000000;

int64_t clock_boottime_ns(void)
{
    struct timespec now;
    HF_CHECK(clock_gettime(CLOCK_BOOTTIME, &now) == 0);
    return now.tv_sec * second_ns + now.tv_nsec;
}

int64_t clock_thread_ns(void)
{
    struct timespec spent;
    HF_CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent) == 0);
    return spent.tv_sec * second_ns + spent.tv_nsec;
}

uint64_t clock_random(void)
{
    static uint64_t buffer[32];
    static unsigned left;
    if (left == 0) {
        /* once the kernel's pool is ready, getrandom() returns up to 256 bytes in one piece */
        HF_CHECK(getrandom(buffer, sizeof(buffer), 0) == (ssize_t)sizeof(buffer));
        left = sizeof(buffer) / sizeof(buffer[0]);
    }
    uint64_t value = buffer[--left];
    buffer[left] = 0;
    return value;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool clock_boot_id(uint8_t out[16])
{
    char text[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file == NULL) {
        return false;
    }
    size_t size = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    memset(out, 0, 16);
    unsigned digits = 0;
    for (size_t i = 0; i < size && digits < 32; i++) {
        int digit = hex_digit(text[i]);
        if (digit >= 0) {
            out[digits / 2] = (uint8_t)(out[digits / 2] << 4 | digit);
            digits++;
        }
    }
    return digits == 32;
}

uint64_t clock_space(void)
{
    struct stat status;
    return stat("/proc/self/ns/time", &status) == 0 ? (uint64_t)status.st_ino : 0;
}

bool clock_adjustment_ppm(int64_t *ppm)
{
    struct timex timex = {.modes = 0};
    long user_hz = sysconf(_SC_CLK_TCK);
    if (user_hz <= 0 || adjtimex(&timex) < 0) {
        return false;
    }
    int64_t nominal_us = 1000000 / user_hz;
    /* tick: microseconds in a tick of USER_HZ; freq: ppm, as a fixed-point number with 16 bits
     * after the binary point */
    *ppm = (timex.tick - nominal_us) * 1000000 / nominal_us + timex.freq / 65536;
    return true;
}

int clock_timer_open(void)
{
    return timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
}

void clock_timer_set(int fd, int64_t due_ns)
{
    struct itimerspec when = {.it_value = {0}};
    if (due_ns != INT64_MAX) {
        int64_t at_ns = due_ns > 0 ? due_ns : 1; /* a time of zero would disarm the timer */
        when.it_value.tv_sec = at_ns / second_ns;
        when.it_value.tv_nsec = at_ns % second_ns;
    }
    HF_CHECK(timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, NULL) == 0);
}

void clock_timer_drain(int fd)
{
    uint64_t fired;
    ssize_t got = read(fd, &fired, sizeof(fired));
    (void)got; /* reading nothing is no error */
}
