/*
 * HF_CHECK: the assertion for bugs. It is always on, in the shipped build too.
 *
 * It is used where only a defect of this program can make the condition false. Input from a wire, a
 * disk, a region or a person is never checked with it: that gets an error.
 *
 * A failed check calls hfi_check_failed(), which does not return. A program may define its own (to
 * log in its own way, or to report a seed); proto/check.c has the weak default, which writes one
 * line to standard error and aborts. Code that must stay free of I/O (agent/core) therefore refers
 * to nothing but this one external symbol.
 */
#ifndef HF_PROTO_CHECK_H
#define HF_PROTO_CHECK_H

#ifdef __cplusplus
extern "C" {
#endif

/* `what` is the text of the condition. Any thread may call this. It must not return. */
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
