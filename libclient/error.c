/* The table of the texts of all error codes. */
#include "client.h"

_Static_assert(HFI_PROTOCOL_VERSION == 5, "the number stands in a text below");

struct error_text {
    int error;
    const char *text;
};

static const struct error_text error_texts[] = {
    {0, "success"},
    {HF_EBUSY, "the lock cannot be taken now"},
    {HF_ETIMEDOUT, "the timeout was over first"},
    {HF_ECANCELED, "the wait was canceled"},
    {HF_ELOST, "the hold was lost"},
    {HF_ENOTHELD, "the lock is not held by this handle"},
    {HF_EALREADY, "the lock is held by this handle already"},
    {HF_EDEADLK, "waiting would be a deadlock"},
    {HF_EFORKED, "the object belongs to the parent process"},
    {HF_ENOAGENT, "no agent answers at the socket"},
    {HF_EACCES, "not allowed by the agent's configuration, or by a mode on its socket's path"},
    {HF_EINVAL, "an argument is out of its range, or options lack their size (HF_OPTIONS_INIT)"},
    {HF_ENAMETOOLONG, "the lock's name is longer than 255 bytes"},
    {HF_EFULL, "a table of the agent is full, or it has no disk or descriptors left"},
    {HF_EVERSION, "the agent speaks another version of the socket's protocol, expected 5"},
    {HF_EPROTO, "the agent's answer is malformed, or this process is in another time namespace"},
    {HF_ENOMEM, "out of memory or file descriptors"},
    {HF_ESTALE, "the sequencer's hold has ended"},
    {HF_EUNKNOWN, "whether the sequencer's hold still counts cannot be found out now"},
    {HF_EUNSERVED, "the agent does not serve this namespace now, but soon will again"},
};

HFI_PUBLIC const char *hf_strerror(int error)
{
    for (size_t i = 0; i < sizeof(error_texts) / sizeof(error_texts[0]); i++) {
        if (error_texts[i].error == error) {
            return error_texts[i].text;
        }
    }
    return "unknown error code";
}

HFI_PUBLIC const char *hf_version(void)
{
    return HF_VERSION;
}
