// The same for holdfast.hpp: see program_of_before.c.
#include <holdfast/holdfast.hpp>

#include <chrono>
#include <cstdio>

int main(int argc, char **argv)
{
    try {
        holdfast::client client{std::string(argc > 1 ? argv[1] : "/nonexistent/agent.sock")};
        hf_lock_options options{};
        options.size = sizeof(options);
        options.flags = HF_REENTRANT;
        holdfast::lock plain(client, "of/before");
        holdfast::lock special(client, "of/others", options);
        hf_hold taken = {};
        if (hf_acquire(special.get(), HF_SHARED, 0, &taken) == 0) {
            hf_release(special.get());
        }
        holdfast::hold hold(plain);
        holdfast::hold second = holdfast::hold::try_for(special, std::chrono::milliseconds(5));
        if (second && hold.remaining() > holdfast::nanoseconds(0)) {
            std::printf("%llu %s\n", (unsigned long long)hold.token(), hold.sequencer().c_str());
        }
        hold.progress();
        hold.downgrade();
        hold.release();
        special.cancel();
    } catch (const holdfast::error &failure) {
        std::fprintf(stderr, "%s\n", failure.what());
        return failure.code() == HF_ENOAGENT ? 69 : 70;
    }
    return 0;
}
