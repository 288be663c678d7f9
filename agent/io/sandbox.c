/*
 * Capabilities and the filter of system calls: see io/sandbox.h.
 *
 * The lists have names of calls, and libseccomp knows the number of each on this architecture. A
 * name that does not exist on this architecture is left out. The list `allowed` has the calls that
 * the agent, libuv, SQLite, NNG, mbedTLS and libc (of Debian 12 and 13) make, each in its older and
 * its newer form. The list does not have the calls of io_uring: operations through it would bypass
 * every filter, and libuv works without it.
 */
#include "io/sandbox.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/sockios.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef HF_SANITIZED
#include <seccomp.h>
#endif

enum { CAPABILITIES_MAX = 64 };

const char *sandbox_drop(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{.effective = 0}};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return "no_new_privs cannot be set";
    }
    if (syscall(SYS_capget, &header, data) != 0) {
        return "capabilities cannot be read";
    }
    if (data[0].permitted == 0 && data[1].permitted == 0) {
        return NULL;
    }
    for (int i = 0; i < CAPABILITIES_MAX; i++) {
        /* EINVAL: this kernel does not have the capability. EPERM: this root lacks CAP_SETPCAP, so
         * its bounding set stays as it is. */
        if (i != CAP_NET_BIND_SERVICE && prctl(PR_CAPBSET_DROP, i, 0, 0, 0) != 0 &&
            errno != EINVAL && errno != EPERM) {
            return "the capability bounding set cannot be reduced";
        }
    }
    const uint32_t kept = data[0].permitted & (UINT32_C(1) << CAP_NET_BIND_SERVICE);
    data[0] = (struct __user_cap_data_struct){.effective = kept, .permitted = kept};
    data[1] = (struct __user_cap_data_struct){.effective = 0};
    if (syscall(SYS_capset, &header, data) != 0 ||
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0) {
        return "capabilities cannot be dropped";
    }
    return NULL;
}

#ifdef HF_SANITIZED

const char *sandbox_filter(void)
{
    return "this build carries sanitizers";
}

bool sandbox_filter_closer(void)
{
    return false;
}

bool sandbox_filter_remover(void)
{
    return false;
}

#else

static const char *const allowed[] = {
    /* memory */
    "brk", "mmap", "mmap2", "munmap", "mremap", "mprotect", "madvise", "membarrier",
    /* files */
    "open", "openat", "close", "close_range", "read", "readv", "pread64", "preadv", "write",
    "writev", "pwrite64", "pwritev", "lseek", "_llseek", "stat", "stat64", "lstat", "lstat64",
    "fstat", "fstat64", "newfstatat", "fstatat64", "statx", "statfs", "statfs64", "fstatfs",
    "fstatfs64", "access", "faccessat", "faccessat2", "fcntl", "fcntl64", "flock", "fsync",
    "fdatasync", "fallocate", "ftruncate", "ftruncate64", "getdents64", "unlink", "unlinkat",
    "rename", "renameat", "renameat2", "mkdir", "mkdirat", "mknod", "mknodat", "chmod", "fchmod",
    "fchmodat", "fchown", "fchown32", "utimensat", "readlink", "readlinkat", "getcwd", "umask",
    "dup", "dup2", "dup3", "pipe", "pipe2",
    /* waiting */
    "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll",
    "ppoll_time64", "select", "pselect6", "_newselect", "eventfd2", "timerfd_create",
    "timerfd_settime", "timerfd_settime64", "timerfd_gettime", "signalfd4", "inotify_init1",
    "inotify_add_watch", "inotify_rm_watch", "restart_syscall",
    /* sockets; add_rules() limits the address families */
    "bind", "listen", "connect", "accept", "accept4", "getsockname", "getpeername", "getsockopt",
    "setsockopt", "sendto", "sendmsg", "sendmmsg", "recvfrom", "recvmsg", "recvmmsg", "shutdown",
    /* time */
    "clock_gettime", "clock_gettime64", "clock_getres", "clock_getres_time64", "clock_nanosleep",
    "clock_nanosleep_time64", "nanosleep", "gettimeofday", "time", "adjtimex", "clock_adjtime",
    "alarm", "setitimer",
    /* threads, and signals to this process */
    "futex", "futex_time64", "futex_waitv", "set_robust_list", "rseq", "sched_yield",
    "sched_getaffinity", "sched_getparam", "sched_getscheduler", "getcpu", "gettid", "getpid",
    "getppid", "set_tid_address", "exit", "exit_group", "rt_sigaction", "rt_sigprocmask",
    "rt_sigreturn", "sigreturn", "rt_sigtimedwait", "sigaltstack", "prctl", "arch_prctl",
    /* user numbers and working folders */
    "getuid", "getuid32", "geteuid", "geteuid32", "getgid", "getgid32", "getegid", "getegid32",
    "uname", "sysinfo", "getrlimit", "ugetrlimit", "getrusage", "getrandom", "pidfd_open"};

/* No library makes these calls in any version, so a call means that an attacker has taken the agent
 * over. */
static const char *const fatal[] = {"execve",
                                    "execveat",
                                    "ptrace",
                                    "process_vm_readv",
                                    "process_vm_writev",
                                    "process_madvise",
                                    "pidfd_getfd",
                                    "pidfd_send_signal",
                                    "kcmp",
                                    "mount",
                                    "umount",
                                    "umount2",
                                    "move_mount",
                                    "open_tree",
                                    "fsopen",
                                    "fsmount",
                                    "mount_setattr",
                                    "pivot_root",
                                    "chroot",
                                    "setns",
                                    "unshare",
                                    "init_module",
                                    "finit_module",
                                    "delete_module",
                                    "kexec_load",
                                    "kexec_file_load",
                                    "bpf",
                                    "perf_event_open",
                                    "userfaultfd",
                                    "keyctl",
                                    "add_key",
                                    "request_key",
                                    "setuid",
                                    "setgid",
                                    "setreuid",
                                    "setregid",
                                    "setresuid",
                                    "setresgid",
                                    "setfsuid",
                                    "setfsgid",
                                    "setgroups",
                                    "capset",
                                    "reboot",
                                    "swapon",
                                    "swapoff",
                                    "settimeofday",
                                    "clock_settime",
                                    "sethostname",
                                    "setdomainname",
                                    "iopl",
                                    "ioperm",
                                    "quotactl",
                                    "acct",
                                    "syslog",
                                    "open_by_handle_at"};

static const char *const refused[] = {"fork", "vfork", "kill", "tkill"};

/* The system calls that a process of io/socket/closer.c makes, those that fork() makes, and those
 * of signal handlers. */
static const char *const closes[] = {"clone",
                                     "clone3",
                                     "fork",
                                     "close",
                                     "recvmsg",
                                     "recvfrom",
                                     "sendto",
                                     "ppoll",
                                     "ppoll_time64",
                                     "poll",
                                     "wait4",
                                     "waitpid",
                                     "kill",
                                     "exit",
                                     "exit_group",
                                     "rt_sigreturn",
                                     "sigreturn",
                                     "rt_sigprocmask",
                                     "set_robust_list",
                                     "rseq",
                                     "gettid",
                                     "getpid",
                                     "futex",
                                     "restart_syscall"};

/* The calls that io/region/remover.c makes besides those in `closes`: it opens, empties, removes
 * and makes files, and sends. */
static const char *const removes[] = {
    "open",    "openat",    "fstat",        "fstat64",   "newfstatat",   "fstatat64",
    "statx",   "ftruncate", "ftruncate64",  "fallocate", "unlink",       "unlinkat",
    "rmdir",   "mkdir",     "mkdirat",      "mmap",      "mmap2",        "munmap",
    "brk",     "pread64",   "flock",        "prctl",     "rt_sigaction", "sendmsg",
    "geteuid", "geteuid32", "futex_time64", "getdents64"};

static const int families[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK /* for getaddrinfo() */};

static const unsigned requests[] = {FIONBIO, FIONREAD, FIOCLEX, FIONCLEX, TCGETS, SIOCOUTQ};

static bool add_all(scmp_filter_ctx filter, uint32_t action, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int number = seccomp_syscall_resolve_name(names[i]);
        if (number == __NR_SCMP_ERROR) {
            continue; /* this libseccomp does not know the call */
        }
        int result = seccomp_rule_add(filter, action, number, 0);
        if (result != 0 && result != -EDOM &&
            result != -EEXIST) { /* EDOM: the call does not exist on this architecture */
            return false;
        }
    }
    return true;
}

static bool add_rules(scmp_filter_ctx filter)
{
    const struct scmp_arg_cmp thread = SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD);
    const struct scmp_arg_cmp process = SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0);
    const struct scmp_arg_cmp itself = SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid(), 0);
    const struct scmp_arg_cmp other = SCMP_A0(SCMP_CMP_NE, (scmp_datum_t)getpid(), 0);
    const struct scmp_arg_cmp own = SCMP_A0(SCMP_CMP_EQ, 0, 0);
    const struct scmp_arg_cmp only_look = SCMP_A2(SCMP_CMP_EQ, 0, 0);
    const uint32_t refuse = SCMP_ACT_ERRNO(EPERM);
    bool good = add_all(filter, SCMP_ACT_ALLOW, allowed, sizeof(allowed) / sizeof(allowed[0])) &&
                add_all(filter, SCMP_ACT_KILL_PROCESS, fatal, sizeof(fatal) / sizeof(fatal[0])) &&
                add_all(filter, refuse, refused, sizeof(refused) / sizeof(refused[0])) &&
                /* No filter can read the arguments of clone3. So clone3 is in no list and fails,
                 * and libc then uses clone. */
                seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1, thread) == 0 &&
                seccomp_rule_add(filter, refuse, SCMP_SYS(clone), 1, process) == 0 &&
                seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1, itself) == 0 &&
                seccomp_rule_add(filter, refuse, SCMP_SYS(tgkill), 1, other) == 0 &&
                seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 2, own, only_look) ==
                    0;
    for (size_t i = 0; good && i < sizeof(families) / sizeof(families[0]); i++) {
        const struct scmp_arg_cmp family = SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)families[i], 0);
        good = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1, family) == 0 &&
               (families[i] != AF_UNIX ||
                seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socketpair), 1, family) == 0);
    }
    for (size_t i = 0; good && i < sizeof(requests) / sizeof(requests[0]); i++) {
        /* The kernel uses only the lower 32 bits of the request. */
        const struct scmp_arg_cmp request = SCMP_A1(SCMP_CMP_MASKED_EQ, UINT32_MAX, requests[i]);
        good = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1, request) == 0;
    }
    return good;
}

bool sandbox_filter_closer(void)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    bool good = filter != NULL &&
                add_all(filter, SCMP_ACT_ALLOW, closes, sizeof(closes) / sizeof(closes[0])) &&
                seccomp_load(filter) == 0;
    seccomp_release(filter);
    return good;
}

bool sandbox_filter_remover(void)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    bool good = filter != NULL &&
                add_all(filter, SCMP_ACT_ALLOW, closes, sizeof(closes) / sizeof(closes[0])) &&
                add_all(filter, SCMP_ACT_ALLOW, removes, sizeof(removes) / sizeof(removes[0])) &&
                seccomp_load(filter) == 0;
    seccomp_release(filter);
    return good;
}

const char *sandbox_filter(void)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    const char *why = NULL;
    if (filter == NULL) {
        return "out of memory";
    }
    /* Asks libseccomp for a binary tree instead of a list of comparisons. Versions before 2.5
     * cannot make one. */
    (void)seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    if (seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1) != 0 || !add_rules(filter)) {
        why = "libseccomp does not take its rules";
    } else if (seccomp_load(filter) != 0) {
        why = "this kernel takes no filter";
    }
    seccomp_release(filter);
    return why;
}

#endif
