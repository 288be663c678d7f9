/*
 * HF_CHECK is the assertion for bugs. It is always on, also in the shipped build.
 *
 * Use it only for a condition that nothing but a bug of this program can make false. Never use it
 * to check input from a wire, a disk, a region or a person: invalid input gets an error.
 *
 * A failed check calls hfi_check_failed(), which does not return. A program may define this
 * function to log in its own way, or to report a seed. proto/check.c has the weak default, which
 * writes one line to standard error and aborts. So code that must not do I/O (agent/core) depends
 * only on this one external symbol.
 */
#ifndef HF_PROTO_CHECK_H
#define HF_PROTO_CHECK_H

#ifdef __cplusplus
extern "C" {
#endif

/* `what` is the text of the condition. This function must not return. Any thread may call it. */
__attribute__((noreturn, cold)) void hfi_check_failed(const char *what, const char *file, int line);

#define HF_CHECK(cond)                                                                             \
    do {                                                                                           \
        if (__builtin_expect(!(cond), 0)) {                                                        \
            hfi_check_failed(#cond, __FILE__, __LINE__);                                           \
        }                                                                                          \
    } while (0)

#ifdef __cplusplus
}
#endif

#endif
