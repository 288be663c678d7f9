package holdfast

// #include <stdlib.h>
// #include <holdfast/holdfast.h>
import "C"

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"
	"unsafe"
)

// An Option is an option of Client.Lock.
type Option func(*request)

// A request is what a call of Lock asks for.
type request struct {
	key     handleKey
	note    string
	shared  bool
	timeout time.Duration // 0: only try; math.MaxInt64: wait as long as ctx allows
	fault   string        // the first option that is out of its range, and what was expected
}

func (r *request) expect(holds bool, option string, value time.Duration, expected string) {
	if !holds && r.fault == "" {
		r.fault = fmt.Sprintf("%s(%v): expected %s", option, value, expected)
	}
}

// Shared takes the lock beside other shared holds, instead of alone.
func Shared() Option {
	return func(r *request) { r.shared = true }
}

// Try does not wait for other holders: Lock fails with ErrBusy if the lock is held, awaited or
// closed, or if nobody answers within 1 s.
func Try() Option {
	return func(r *request) { r.timeout = 0 }
}

// Timeout limits the wait: Lock fails with ErrTimeout when it is over. It does not limit the hold,
// as the end of ctx does.
func Timeout(timeout time.Duration) Option {
	return func(r *request) {
		r.expect(timeout > 0, "Timeout", timeout, "more than 0 (Try does not wait)")
		r.timeout = timeout
	}
}

// Lease limits the hold: it ends by itself after that time. Default: no limit.
func Lease(lease time.Duration) Option {
	return func(r *request) {
		r.expect(lease >= time.Millisecond, "Lease", lease, "at least 1ms")
		r.key.lease = lease
	}
}

// MaxStall ends the hold if Hold.Progress is not called for that time. Default: no limit.
func MaxStall(stall time.Duration) Option {
	return func(r *request) {
		r.expect(stall >= time.Millisecond, "MaxStall", stall, "at least 1ms")
		r.key.maxStall = stall
	}
}

// LockDelay is for how long the lock stays closed if this process vanishes while it holds. Default:
// 1 s; 0: not at all.
func LockDelay(delay time.Duration) Option {
	return func(r *request) {
		r.expect(delay >= 0 && delay <= time.Minute, "LockDelay", delay, "0s to 1m0s")
		r.key.lockDelay = delay
		if delay == 0 {
			r.key.lockDelay = C.HF_NO_LOCK_DELAY
		}
	}
}

// Barging makes the lock faster under contention, but lets this hold overtake those that wait.
func Barging() Option {
	return func(r *request) { r.key.barging = true }
}

// Note says for what the lock is held. Other users see it beside this process's command, as in
// `holdfast show`. At most 256 bytes.
func Note(text string) Option {
	return func(r *request) {
		if (len(text) > C.HF_NOTE_MAX || strings.ContainsRune(text, 0)) && r.fault == "" {
			r.fault = fmt.Sprintf("Note: %d bytes, expected at most %d without a zero byte", len(text),
				C.HF_NOTE_MAX)
		}
		r.note = text
	}
}

// Lock waits for the lock of that name, and takes it. The name has 1 to 255 bytes of UTF-8 without
// control characters.
//
// ctx is the context of the whole work. Its end ends the wait, and later Hold.Context, too. To
// limit the wait alone, use Timeout.
//
// Each Lock needs its Hold.Unlock. The error is an *Error (or ErrClosed), and says who holds the
// lock if the agent knows that. ErrBusy and ErrTimeout: Lock did not get the lock; if ctx ended,
// errors.Is finds ctx.Err(), too. ErrInvalid, ErrNameTooLong, ErrAccess, ErrFull. ErrNoAgent and
// ErrUnserved: a wait goes on until an agent is back, so only a try fails with these, or the first
// use of a name.
func (c *Client) Lock(ctx context.Context, name string, options ...Option) (*Hold, error) {
	what := fmt.Sprintf("lock %q", name)
	r := request{key: handleKey{name: name}, timeout: math.MaxInt64}
	for _, option := range options {
		option(&r)
	}
	if strings.ContainsRune(name, 0) {
		return nil, invalid(what, "the name has a zero byte")
	}
	if r.fault != "" {
		return nil, invalid(what, "%s", r.fault)
	}
	if ctx.Err() != nil {
		return nil, late(ctx, what)
	}
	if err := c.begin(); err != nil {
		return nil, err
	}
	defer c.end()
	h, err := c.take(ctx, r.key, what)
	if err != nil {
		return nil, err
	}
	h.setNote(r.note)
	hold, err := c.acquire(ctx, h, &r, what)
	if err != nil {
		c.giveBack(h)
		return nil, err
	}
	return hold, nil
}

// setNote sets the note on the handle's next hold. It asks the agent only if the note changes.
func (h *handle) setNote(note string) {
	if h.note == note {
		return
	}
	text := C.CString(note)
	defer C.free(unsafe.Pointer(text))
	C.hf_set_note(h.lock, text) // Note has checked the text
	h.note = note
}

// acquire takes the lock with the handle. If it fails, the handle has no hold.
func (c *Client) acquire(ctx context.Context, h *handle, r *request, what string) (*Hold, error) {
	var raw C.struct_hf_hold
	code := c.acquireRaw(ctx, h, r, &raw)
	c.mutex.Lock()
	closed := c.closed
	c.mutex.Unlock()
	if code == 0 && (closed || ctx.Err() != nil) {
		C.hf_release(h.lock)
		code = C.HF_ECANCELED
	}
	switch {
	case code == 0:
		hold := &Hold{client: c, handle: h, parent: ctx, what: what, name: r.key.name}
		hold.shared.Store(r.shared)
		hold.token = uint64(raw.token)
		return hold, nil
	case closed:
		return nil, ErrClosed
	case code == C.HF_ECANCELED && ctx.Err() != nil:
		e := late(ctx, what)
		if e.Code == ErrTimeout {
			e.Reason = c.why(h)
		}
		return nil, e
	}
	e := &Error{What: what, Code: Code(code)}
	if e.Code == ErrBusy || e.Code == ErrTimeout {
		e.Reason = c.why(h)
	}
	return nil, e
}

// acquireRaw calls hf_acquire, and ends the wait when ctx ends.
func (c *Client) acquireRaw(
	ctx context.Context, h *handle, r *request, raw *C.struct_hf_hold,
) C.int {
	mode := C.enum_hf_mode(C.HF_EXCLUSIVE)
	if r.shared {
		mode = C.HF_SHARED
	}
	if ctx.Done() != nil && r.timeout > 0 {
		// A free lock comes at once, so nothing has to watch ctx. The timeout is 1 ns and not 0,
		// because a try waits for the agent for up to 1 s.
		if code := C.hf_acquire(h.lock, mode, 1, raw); code != C.HF_ETIMEDOUT {
			return code
		}
	}
	c.mutex.Lock()
	c.waiting[h] = struct{}{} // so that Close can end the wait
	c.mutex.Unlock()
	stop := cancelWhenDone(ctx, h)
	code := C.hf_acquire(h.lock, mode, timeoutNS(r.timeout), raw)
	stop()
	c.mutex.Lock()
	delete(c.waiting, h)
	c.mutex.Unlock()
	return code
}

// cancelWhenDone calls hf_cancel from the end of ctx on, until the function that it returns is
// called. When that function returns, no hf_cancel comes any more.
func cancelWhenDone(ctx context.Context, h *handle) func() {
	if ctx.Done() == nil {
		return func() {}
	}
	finished, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-finished:
			return
		case <-ctx.Done():
		}
		pause := time.NewTicker(cancelPause)
		defer pause.Stop()
		for {
			C.hf_cancel(h.lock)
			select {
			case <-finished:
				return
			case <-pause.C:
			}
		}
	}()
	return func() {
		close(finished)
		<-stopped
	}
}
