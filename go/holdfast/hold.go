package holdfast

// #include <holdfast/holdfast.h>
import "C"

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// A Hold is one possession of a lock. Client.Lock makes it. It is not unlocked by itself: a hold
// that the program forgets stays until Client.Close or the end of the process, unless it has a
// Lease.
type Hold struct {
	client *Client
	name   string
	what   string
	token  uint64
	parent context.Context

	mutex  sync.RWMutex // Unlock locks it for writing, calls that use the handle for reading
	handle *handle      // nil: the hold was unlocked
	shared atomic.Bool

	contextMutex sync.Mutex // protects the next two members
	ctx          context.Context
	endContext   func(error)
}

// Name returns the lock's name.
func (h *Hold) Name() string { return h.name }

// Token returns the fencing token, which rises from each exclusive hold to the next for ever. Give
// it to the resource that you write to, and let the resource refuse lower tokens. Store 64 bits.
func (h *Hold) Token() uint64 { return h.token }

// IsShared returns whether the hold is a shared one.
func (h *Hold) IsShared() bool {
	return h.shared.Load()
}

// String returns what a log needs of the hold: the lock's name, the mode and the token.
func (h *Hold) String() string {
	mode := "exclusive"
	if h.IsShared() {
		mode = "shared"
	}
	return fmt.Sprintf("hold of %s (%s, token %d)", h.name, mode, h.token)
}

// Context returns the context for the work under the hold. It comes from the context that Lock got,
// and ends with it. It also ends when the hold is lost: Cause then returns an *Error with the code
// ErrLost, which says why. It ends with ErrUnlocked when the hold is unlocked.
//
// It ends, too, when the hold does not count for the moment, because the agent was away for longer
// than the lease. Such a hold may count again, and Unlock may return nil, but the context stays
// ended.
//
// The first call on a client starts one goroutine, which listens to the library's events until
// Client.Close.
func (h *Hold) Context() context.Context {
	h.contextMutex.Lock()
	first := h.ctx == nil
	if first {
		h.ctx, h.endContext = withCause(h.parent)
	}
	ctx := h.ctx
	h.contextMutex.Unlock()
	if first {
		if err := h.watch(); err != nil {
			h.end(err)
		}
	}
	return ctx
}

// watch lets the client report the loss of the hold.
func (h *Hold) watch() error {
	h.mutex.RLock()
	defer h.mutex.RUnlock()
	c := h.client
	if h.handle == nil {
		return ErrUnlocked
	}
	if err := c.begin(); err != nil {
		return err
	}
	defer c.end()
	if err := c.eventsStart(); err != nil {
		return err
	}
	c.mutex.Lock()
	closed := c.closed
	if !closed {
		c.watched[h.handle.lock] = h
	}
	c.mutex.Unlock()
	if closed {
		return ErrClosed
	}
	// An earlier loss may be an event that has come already.
	if C.hf_remaining_ns(h.handle.lock) == 0 {
		return h.lost(h.handle)
	}
	return nil
}

// lost returns the error that says why the hold does not count. The caller has begun a call.
func (h *Hold) lost(handle *handle) error {
	return &Error{What: h.what, Code: ErrLost, Reason: h.client.why(handle)}
}

// end ends the context, if there is one. Only the first cause counts.
func (h *Hold) end(cause error) {
	h.contextMutex.Lock()
	defer h.contextMutex.Unlock()
	if h.endContext != nil {
		h.endContext(cause)
	}
}

// use runs a call of the library on the hold's handle. The hold is not unlocked meanwhile.
func (h *Hold) use(call func(*C.hf_lock) C.int) error {
	h.mutex.RLock()
	defer h.mutex.RUnlock()
	if h.handle == nil {
		return fail(C.HF_ENOTHELD, h.what)
	}
	if err := h.client.begin(); err != nil {
		return err
	}
	defer h.client.end()
	code := call(h.handle.lock)
	if code == C.HF_ELOST {
		return h.lost(h.handle)
	}
	return fail(code, h.what)
}

// Unlock ends the hold. The lock goes to the waiter that has waited longest. The hold's context
// ends before that.
//
// ErrLost: the hold had ended before. ErrNotHeld: it was unlocked before. In both cases nothing is
// left to unlock. (The result nil is less certain: see hf_release in holdfast.h.)
func (h *Hold) Unlock() error {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	c := h.client
	if h.handle == nil {
		return fail(C.HF_ENOTHELD, h.what)
	}
	if err := c.begin(); err != nil {
		return err
	}
	defer c.end()
	handle := h.handle
	h.handle = nil
	defer c.giveBack(handle)
	c.mutex.Lock()
	delete(c.watched, handle.lock)
	c.mutex.Unlock()
	if C.hf_remaining_ns(handle.lock) > 0 {
		h.end(ErrUnlocked)
	}
	code := C.hf_release(handle.lock)
	if code == C.HF_ELOST {
		err := h.lost(handle)
		h.end(err)
		return err
	}
	h.end(ErrUnlocked)
	return fail(code, h.what)
}

// Remaining returns for how long from now the hold still counts if its lease is not renewed. 0: it
// does not count, because it was unlocked or lost, or the agent was away for too long. Remaining
// reads the clock, and does not wait.
func (h *Hold) Remaining() time.Duration {
	var remaining time.Duration
	// an error means that there is no hold, and so does the result 0
	_ = h.use(func(lock *C.hf_lock) C.int {
		remaining = time.Duration(C.hf_remaining_ns(lock))
		return 0
	})
	return remaining
}

// Deadline returns the time at which the hold ends if its lease is not renewed before. It is the
// zero time if the hold does not count. The time has a reading of Go's monotonic clock, which
// stands still while the machine is suspended; so look at Remaining before a step that must not
// come late.
func (h *Hold) Deadline() time.Time {
	remaining := h.Remaining()
	if remaining == 0 {
		return time.Time{}
	}
	return time.Now().Add(remaining)
}

// Check returns ErrLost, with the reason, if the hold does not count now. Call it before a step
// that must not come late. A process that is stopped after this call does not notice that: the
// resource has to check the token.
func (h *Hold) Check() error {
	return h.use(func(lock *C.hf_lock) C.int {
		if C.hf_remaining_ns(lock) == 0 {
			return C.HF_ELOST
		}
		return 0
	})
}

// Progress reports progress: the hold goes on for MaxStall from now. ErrLost: it does not count any
// more.
func (h *Hold) Progress() error {
	return h.use(func(lock *C.hf_lock) C.int { return C.hf_progress(lock) })
}

// Downgrade changes an exclusive hold to a shared one, and no other exclusive hold comes in
// between. ErrLost, ErrNoAgent, ErrFull.
func (h *Hold) Downgrade() error {
	err := h.use(func(lock *C.hf_lock) C.int { return C.hf_downgrade(lock) })
	if err == nil {
		h.shared.Store(true)
	}
	return err
}

// Sequencer returns a word of [A-Za-z0-9._~%:/-] that has the lock's name, the token and more, for
// Client.CheckSequencer. ErrLost: the hold has ended.
func (h *Hold) Sequencer() (string, error) {
	var text [C.HF_SEQUENCER_MAX]C.char
	err := h.use(func(lock *C.hf_lock) C.int {
		return C.hf_sequencer(lock, &text[0], C.size_t(len(text)))
	})
	if err != nil {
		return "", err
	}
	return C.GoString(&text[0]), nil
}
