/*
 * The rights that the agent gives up (io/sandbox.h). A process that has given these rights up tries
 * to use each right: on the thread that gave them up, and on threads that were made before and
 * after.
 */
#include "io/sandbox.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../suite_main.h"

enum { WENT_WRONG = 1, NOT_CONFINED = 2 };

static sem_t go;

static void confine(void)
{
    if (sandbox_drop() != NULL || sandbox_filter() != NULL) {
        _exit(NOT_CONFINED);
    }
}

/* Runs try() in a confined process. Returns its status, as waitpid() reports it. */
static int confined(void (*try)(void))
{
    int status = 0;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        confine();
        try();
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

static void require(bool condition)
{
    if (!condition) {
        _exit(WENT_WRONG);
    }
}

static bool is_killed(int status)
{
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS;
}

static bool is_good(int status)
{
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void start_a_program(void)
{
    char name[] = "true";
    char *arguments[] = {name, NULL};
    (void)execv("/bin/true", arguments); /* without confinement, this would exit with success */
}

static void start_a_program_by_descriptor(void)
{
    char name[] = "true";
    char *arguments[] = {name, NULL};
    char *none[] = {NULL};
    int fd = open("/bin/true", O_RDONLY | O_CLOEXEC);
    (void)fexecve(fd, arguments, none);
}

static void trace(void)
{
    (void)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
}

static void become_somebody_else(void)
{
    (void)syscall(SYS_setuid, getuid());
}

static void leave_its_namespaces(void)
{
    (void)syscall(SYS_unshare, 0);
}

START_TEST(what_it_never_does_ends_it)
{
    ck_assert(is_killed(confined(start_a_program)));
    ck_assert(is_killed(confined(start_a_program_by_descriptor)));
    ck_assert(is_killed(confined(trace)));
    ck_assert(is_killed(confined(become_somebody_else)));
    ck_assert(is_killed(confined(leave_its_namespaces)));
}
END_TEST

static void try_refused(void)
{
    require(fork() == -1 && errno == EPERM);
    require(kill(getppid(), 0) == -1 && errno == EPERM);
    require(kill(getpid(), SIGTERM) == -1 && errno == EPERM);
    require(syscall(SYS_tgkill, getppid(), getppid(), 0) == -1 && errno == EPERM);
    require(socket(AF_PACKET, SOCK_RAW, 0) == -1 && errno == ENOSYS);
    require(socket(AF_VSOCK, SOCK_STREAM, 0) == -1 && errno == ENOSYS);
    require(ioctl(0, TIOCSTI, "x") == -1 && errno == ENOSYS);
    require(syscall(SYS_io_uring_setup, 1, NULL) == -1 && errno == ENOSYS);
    require(syscall(SYS_memfd_create, "x", 0) == -1 && errno == ENOSYS);
    require(syscall(100000) == -1 && errno == ENOSYS);
}

START_TEST(the_rest_is_refused)
{
    ck_assert(is_good(confined(try_refused)));
}
END_TEST

static void *nothing(void *arg)
{
    return arg;
}

static void try_needed(void)
{
    struct addrinfo *found = NULL;
    pthread_t thread;
    require(pthread_create(&thread, NULL, nothing, NULL) == 0);
    require(pthread_join(thread, NULL) == 0);
    require(raise(0) == 0);
    int result = getaddrinfo("localhost", "7411", NULL, &found);
    require(result == 0 || result == EAI_NONAME);
    if (result == 0) {
        freeaddrinfo(found);
    }
    FILE *file = tmpfile();
    require(file != NULL && fputs("x", file) >= 0 && fclose(file) == 0);
    require(socket(AF_UNIX, SOCK_SEQPACKET, 0) >= 0);
    require(socket(AF_INET, SOCK_STREAM, 0) >= 0);
}

START_TEST(what_it_needs_it_may)
{
    ck_assert(is_good(confined(try_needed)));
}
END_TEST

static void try_powers(void)
{
    char line[256];
    unsigned long long effective = 1;
    unsigned long long bounding = 1;
    FILE *status = fopen("/proc/self/status", "re");
    require(status != NULL);
    while (fgets(line, sizeof(line), status) != NULL) {
        (void)sscanf(line, "CapEff: %llx", &effective);
        (void)sscanf(line, "CapBnd: %llx", &bounding);
    }
    fclose(status);
    require((effective & ~(1ULL << 10)) == 0); /* all but CAP_NET_BIND_SERVICE */
    require(geteuid() != 0 || (bounding & ~(1ULL << 10)) == 0);
    require(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
    require(prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2);
}

START_TEST(no_power_is_left)
{
    ck_assert(is_good(confined(try_powers)));
}
END_TEST

static void *wait_and_start_a_program(void *arg)
{
    sem_wait(&go);
    start_a_program();
    return arg;
}

/* A thread that was started before the process was confined is confined, too. */
START_TEST(threads_of_before_are_bound_too)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t thread;
        sem_init(&go, 0, 0);
        require(pthread_create(&thread, NULL, wait_and_start_a_program, NULL) == 0);
        confine();
        sem_post(&go);
        pthread_join(thread, NULL);
        _exit(WENT_WRONG);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(is_killed(status));
}
END_TEST

int main(void)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        confine();
        _exit(0);
    }
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_CONFINED) {
        printf("no filter of system calls can be set here\n");
        return 77; /* the exit status of a skipped test */
    }
    TCase *tests = tcase_create("sandbox");
    tcase_add_test(tests, what_it_never_does_ends_it);
    tcase_add_test(tests, the_rest_is_refused);
    tcase_add_test(tests, what_it_needs_it_may);
    tcase_add_test(tests, no_power_is_left);
    tcase_add_test(tests, threads_of_before_are_bound_too);
    return suite_main("sandbox", tests);
}
