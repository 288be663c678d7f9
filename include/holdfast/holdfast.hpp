/*
 * Holdfast for C++17: objects that own the handles of holdfast.h. Header-only; link libholdfast.
 *
 *     holdfast::client client;                       // hf_connect; throws holdfast::error
 *     holdfast::lock lock(client, "nightly-report");
 *     {
 *         holdfast::hold hold(lock);                 // waits
 *         store.write(data, hold.token());
 *     }                                              // released
 *     if (auto hold = holdfast::hold::try_for(lock, std::chrono::seconds(2))) { ... }
 *
 * A client must outlive its locks, and a lock must outlive its holds. A constructor that fails
 * throws an error. try_to and try_for return an empty hold if they do not get the lock, and throw
 * for any other failure. A destructor never throws. A program that must know whether its hold
 * lasted calls release(), which throws if the hold was lost.
 */
#ifndef HOLDFAST_HOLDFAST_HPP
#define HOLDFAST_HOLDFAST_HPP

#include "holdfast/holdfast.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace holdfast
{

using nanoseconds = std::chrono::nanoseconds;

/* A failure, with its HF_E... code. what() is the text of hf_error_text, or else that of
 * hf_strerror. */
class error : public std::runtime_error
{
  public:
    explicit error(int code) : error(code, hf_strerror(code))
    {
    }
    error(int code, const char *text) : std::runtime_error(text), code_(code)
    {
    }
    int code() const noexcept
    {
        return code_;
    }

  private:
    int code_;
};

namespace detail
{
inline void check(int code)
{
    if (code < 0) {
        throw error(code, hf_error_text(nullptr)); /* the call was this thread's last failure */
    }
}
/* A C string would end at a zero byte. */
inline const char *c_string(const std::string &text)
{
    if (text.find('\0') != std::string::npos) {
        throw error(HF_EINVAL);
    }
    return text.c_str();
}
} // namespace detail

/* hf_event. For the object that owns the handle, compare `handle` with its get(). */
struct event {
    hf_event_kind kind;
    hf_lock *handle; /* null for HF_EVENT_CHANGED */
    std::uint64_t token;
    std::string name;
    hf_reason_kind why; /* of HF_EVENT_LOST */
    int error;          /* of HF_EVENT_FAILED: the code with which hf_acquire_start() ended */
};

/* hf_client */
class client
{
  public:
    client() : client(options_of(nullptr))
    {
    }
    explicit client(const std::string &socket) : client(options_of(detail::c_string(socket)))
    {
    }
    explicit client(const hf_options &options)
    {
        hf_client *made = nullptr;
        detail::check(hf_connect(&options, &made));
        handle_.reset(made);
    }
    hf_client *get() const noexcept
    {
        return handle_.get();
    }
    /* When this descriptor polls readable, call next_event() until it returns an empty object. */
    int event_fd()
    {
        int fd = hf_event_fd(get());
        detail::check(fd);
        return fd;
    }
    std::optional<event> next_event()
    {
        hf_event raw;
        int got = hf_next_event(get(), &raw);
        detail::check(got);
        if (got == 0) {
            return std::nullopt;
        }
        return event{raw.kind, raw.lock, raw.token, raw.name, raw.why, raw.error};
    }
    void watch(const std::string &prefix)
    {
        detail::check(hf_watch(get(), detail::c_string(prefix)));
    }
    void unwatch(const std::string &prefix)
    {
        detail::check(hf_unwatch(get(), detail::c_string(prefix)));
    }

  private:
    static hf_options options_of(const char *socket) noexcept
    {
        hf_options options = HF_OPTIONS_INIT;
        options.socket = socket;
        return options;
    }
    struct client_deleter {
        void operator()(hf_client *handle) const noexcept
        {
            hf_disconnect(handle);
        }
    };
    std::unique_ptr<hf_client, client_deleter> handle_;
};

/* hf_lock */
class lock
{
  public:
    lock(const client &owner, const std::string &name)
        : lock(owner, name, hf_lock_options HF_LOCK_OPTIONS_INIT)
    {
    }
    lock(const client &owner, const std::string &name, const hf_lock_options &options)
    {
        hf_lock *made = nullptr;
        detail::check(hf_open(owner.get(), detail::c_string(name), &options, &made));
        handle_.reset(made);
    }
    hf_lock *get() const noexcept
    {
        return handle_.get();
    }
    /* Empty for an object from which the lock was moved. */
    std::string name() const
    {
        const char *name = hf_lock_name(get());
        return name != nullptr ? name : "";
    }
    /* Ends the waits of other threads on this lock: they throw HF_ECANCELED. */
    void cancel()
    {
        detail::check(hf_cancel(get()));
    }
    /* Sets the note on the next holds: see hf_set_note. An empty text takes it away. */
    void set_note(const std::string &text)
    {
        detail::check(hf_set_note(get(), detail::c_string(text)));
    }

  private:
    struct lock_deleter {
        void operator()(hf_lock *handle) const noexcept
        {
            hf_close(handle);
        }
    };
    std::unique_ptr<hf_lock, lock_deleter> handle_;
};

/* A hold, which is released when it goes out of scope. It can be moved but not copied. An empty
 * object holds nothing. */
class hold
{
  public:
    hold() noexcept = default;
    /* Takes the lock. Waits for it without a limit. */
    explicit hold(const lock &of, hf_mode mode = HF_EXCLUSIVE)
    {
        detail::check(take(of, mode, HF_FOREVER));
    }
    hold(hold &&from) noexcept : handle_(std::exchange(from.handle_, nullptr)), token_(from.token_)
    {
    }
    hold &operator=(hold &&from) noexcept
    {
        if (this != &from) {
            drop();
            handle_ = std::exchange(from.handle_, nullptr);
            token_ = from.token_;
        }
        return *this;
    }
    hold(const hold &) = delete;
    hold &operator=(const hold &) = delete;
    ~hold()
    {
        drop();
    }

    /* try_to tries once; try_for waits for timeout at most. Both return an empty hold if they do
     * not get the lock. */
    static hold try_to(const lock &of, hf_mode mode = HF_EXCLUSIVE)
    {
        return attempt(of, mode, 0);
    }
    static hold try_for(const lock &of, nanoseconds timeout, hf_mode mode = HF_EXCLUSIVE)
    {
        return attempt(of, mode, timeout.count() > 0 ? timeout.count() : 0);
    }

    explicit operator bool() const noexcept
    {
        return handle_ != nullptr;
    }
    /* The fencing token. */
    std::uint64_t token() const noexcept
    {
        return token_;
    }
    /* For how long the hold still counts; zero if it does not. No system call. */
    nanoseconds remaining() const noexcept
    {
        return nanoseconds(handle_ != nullptr ? hf_remaining_ns(handle_) : 0);
    }
    std::string sequencer() const
    {
        char buffer[HF_SEQUENCER_MAX];
        detail::check(hf_sequencer(held(), buffer, sizeof(buffer)));
        return buffer;
    }
    void progress()
    {
        detail::check(hf_progress(held()));
    }
    void downgrade()
    {
        detail::check(hf_downgrade(held()));
    }
    /* Ends the hold now. Throws HF_ELOST if the hold had ended before the call. This object is
     * empty afterwards, even if the call throws. */
    void release()
    {
        hf_lock *released = held();
        handle_ = nullptr;
        detail::check(hf_release(released));
    }

  private:
    hf_lock *held() const
    {
        if (handle_ == nullptr) {
            throw error(HF_ENOTHELD);
        }
        return handle_;
    }
    int take(const lock &of, hf_mode mode, std::int64_t timeout_ns) noexcept
    {
        hf_hold taken{};
        int code = hf_acquire(of.get(), mode, timeout_ns, &taken);
        if (code == 0) {
            handle_ = of.get();
            token_ = taken.token;
        }
        return code;
    }
    static hold attempt(const lock &of, hf_mode mode, std::int64_t timeout_ns)
    {
        hold made;
        int code = made.take(of, mode, timeout_ns);
        if (code != HF_EBUSY && code != HF_ETIMEDOUT) {
            detail::check(code);
        }
        return made;
    }
    void drop() noexcept
    {
        if (handle_ != nullptr) {
            (void)hf_release(std::exchange(handle_, nullptr));
        }
    }

    hf_lock *handle_ = nullptr;
    std::uint64_t token_ = 0;
};

/*
 * Holds of several locks of one client, all or none (hf_acquire_all), which are released when the
 * object goes out of scope. It can be moved but not copied. An empty object holds nothing.
 *
 *     holdfast::hold_set all({from, to});            // two objects of holdfast::lock; waits
 */
class hold_set
{
  public:
    using lock_list = std::vector<std::reference_wrapper<const lock>>;

    hold_set() noexcept = default;
    /* Takes the locks. Waits for them without a limit. */
    explicit hold_set(const lock_list &of, hf_mode mode = HF_EXCLUSIVE)
    {
        detail::check(take(of, mode, HF_FOREVER));
    }
    hold_set(hold_set &&from) noexcept
        : handles_(std::exchange(from.handles_, {})), tokens_(std::exchange(from.tokens_, {}))
    {
    }
    hold_set &operator=(hold_set &&from) noexcept
    {
        if (this != &from) {
            drop();
            handles_ = std::exchange(from.handles_, {});
            tokens_ = std::exchange(from.tokens_, {});
        }
        return *this;
    }
    hold_set(const hold_set &) = delete;
    hold_set &operator=(const hold_set &) = delete;
    ~hold_set()
    {
        drop();
    }

    /* try_to tries once; try_for waits for timeout at most. Both return an empty object if they do
     * not get all of the locks. */
    static hold_set try_to(const lock_list &of, hf_mode mode = HF_EXCLUSIVE)
    {
        return attempt(of, mode, 0);
    }
    static hold_set try_for(const lock_list &of, nanoseconds timeout, hf_mode mode = HF_EXCLUSIVE)
    {
        return attempt(of, mode, timeout.count() > 0 ? timeout.count() : 0);
    }

    explicit operator bool() const noexcept
    {
        return !handles_.empty();
    }
    /* The fencing token of the lock with that index in the list. */
    std::uint64_t token(std::size_t index) const
    {
        return tokens_.at(index);
    }
    /* For how long all of the holds still count; zero if one of them does not. No system call. */
    nanoseconds remaining() const noexcept
    {
        std::int64_t least_ns = handles_.empty() ? 0 : hf_remaining_ns(handles_[0]);
        for (hf_lock *handle : handles_) {
            std::int64_t one_ns = hf_remaining_ns(handle);
            least_ns = one_ns < least_ns ? one_ns : least_ns;
        }
        return nanoseconds(least_ns);
    }
    /* Ends the holds now. Throws HF_ELOST if one of them had ended before the call. This object is
     * empty afterwards, even if the call throws. */
    void release()
    {
        if (handles_.empty()) {
            throw error(HF_ENOTHELD);
        }
        detail::check(drop());
    }

  private:
    int take(const lock_list &of, hf_mode mode, std::int64_t timeout_ns)
    {
        std::vector<hf_lock *> handles;
        std::vector<hf_hold> holds(of.size());
        std::vector<std::uint64_t> tokens(of.size());
        for (const lock &one : of) {
            handles.push_back(one.get());
        }
        int code = hf_acquire_all(handles.data(), handles.size(), mode, timeout_ns, holds.data());
        if (code ==
            0) { /* nothing below allocates memory, so nothing throws while the locks are held */
            for (std::size_t i = 0; i < of.size(); i++) {
                tokens[i] = holds[i].token;
            }
            handles_.swap(handles);
            tokens_.swap(tokens);
        }
        return code;
    }
    static hold_set attempt(const lock_list &of, hf_mode mode, std::int64_t timeout_ns)
    {
        hold_set made;
        int code = made.take(of, mode, timeout_ns);
        if (code != HF_EBUSY && code != HF_ETIMEDOUT) {
            detail::check(code);
        }
        return made;
    }
    /* Releases all holds, in the reverse order. Returns the last failure, whose text is the
     * thread's. */
    int drop() noexcept
    {
        int code = 0;
        for (; !handles_.empty(); handles_.pop_back()) {
            int one = hf_release(handles_.back());
            code = one < 0 ? one : code;
        }
        tokens_.clear();
        return code;
    }

    std::vector<hf_lock *> handles_;
    std::vector<std::uint64_t> tokens_;
};

/*
 * A lock for the guards of the standard library (std::lock_guard, std::unique_lock and
 * std::scoped_lock): it is BasicLockable and Lockable. It is always exclusive.
 *
 *     holdfast::mutex mutex(client, "nightly-report");
 *     std::lock_guard<holdfast::mutex> guard(mutex);
 *
 * Many threads may use one object: a thread waits while another thread of the process has it. The
 * thread that locked the object must unlock it. A guard does not report that its hold was lost. A
 * program that has to know that calls remaining(), or uses holdfast::hold.
 */
class mutex
{
  public:
    mutex(const client &owner, const std::string &name) : lock_(owner, name)
    {
    }
    mutex(const client &owner, const std::string &name, const hf_lock_options &options)
        : lock_(owner, name, options)
    {
    }
    /* Waits without a limit. Throws an error if the lock cannot be taken. */
    void lock()
    {
        std::unique_lock<std::mutex> turn(turn_);
        hold_ = hold(lock_);
        turn.release();
    }
    /* Tries once. Returns false if another thread or process has the lock, or waits for it. */
    bool try_lock()
    {
        std::unique_lock<std::mutex> turn(turn_, std::try_to_lock);
        if (!turn.owns_lock()) {
            return false;
        }
        hold_ = hold::try_to(lock_);
        if (!hold_) {
            return false;
        }
        turn.release();
        return true;
    }
    void unlock() noexcept
    {
        hold_ = hold();
        turn_.unlock();
    }
    /* For the thread that has the lock: the fencing token, and for how long the hold still counts
     * (zero if it does not). */
    std::uint64_t token() const noexcept
    {
        return hold_.token();
    }
    nanoseconds remaining() const noexcept
    {
        return hold_.remaining();
    }

  private:
    holdfast::lock lock_;
    std::mutex turn_; /* held by the thread that has the lock; only that thread uses hold_ */
    hold hold_;
};

} // namespace holdfast

#endif
