package holdfast

/*
#cgo pkg-config: holdfast
#include <stdlib.h>
#include <holdfast/holdfast.h>
*/
import "C"

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"
	"unsafe"
)

// How many handles without a hold a client keeps for the next Lock of the same name and options.
const idleMax = 64

// The pause between two calls of hf_cancel. One call is not enough, because it does not end a wait
// that is just about to begin.
const cancelPause = 2 * time.Millisecond

// How long a failed Lock waits for the agent to say why.
const whyLimit = 100 * time.Millisecond

// A Client is a connection to the agent of this host.
//
// The library frees a client in hf_disconnect, and no other call may use the client from then on.
// So each call is counted (begin, end), and Close waits until none runs.
type Client struct {
	pointer *C.hf_client
	gone    chan struct{} // closed at the end of Close

	mutex   sync.Mutex // protects all members below
	closed  bool
	calls   int                  // how many calls of the library run, or are about to
	waiting map[*handle]struct{} // handles with an acquire
	idle    []*handle            // handles without a hold; the last one was used last
	watched map[*C.hf_lock]*Hold // holds with a context
	events  *events              // reports losses; nil: no hold had a context yet
}

// A handle is an hf_lock. It is in one place at any time: in Client.idle, in Hold.handle of one
// hold, or in a call of Lock.
type handle struct {
	lock *C.hf_lock
	key  handleKey
	note string // belongs to whoever has the handle
	asks int    // how many calls of hf_why use it, also while it is idle; protected by Client.mutex
}

// Handles with equal keys are interchangeable.
type handleKey struct {
	name      string
	barging   bool
	lockDelay time.Duration // 0: the default; negative: none
	lease     time.Duration
	maxStall  time.Duration
}

// A ClientOption is an option of Connect.
type ClientOption func(*clientOptions)

type clientOptions struct {
	socket  string
	timeout time.Duration
	command string
}

// Socket names the agent's socket. Default: $HOLDFAST_SOCKET if it is set, else the system's agent,
// else one that was started with --dev.
func Socket(path string) ClientOption {
	return func(o *clientOptions) { o.socket = path }
}

// ConnectTimeout is for how long Connect tries to find an agent (default: 5 s).
func ConnectTimeout(timeout time.Duration) ClientOption {
	return func(o *clientOptions) { o.timeout = timeout }
}

// Command is what other users see as this process's command, as in `holdfast ls`; at most 160 bytes
// of it. Default: the command line of this process.
func Command(command string) ClientOption {
	return func(o *clientOptions) { o.command = command }
}

// Connect connects to the agent of this host. It fails with ErrNoAgent, ErrAccess, ErrFull,
// ErrVersion, ErrProtocol or ErrInvalid, or when ctx ends. An attempt that ctx ends goes on in the
// background until the timeout is over, and leaves nothing behind.
func Connect(ctx context.Context, options ...ClientOption) (*Client, error) {
	o := clientOptions{timeout: 5 * time.Second}
	for _, option := range options {
		option(&o)
	}
	what := "connect"
	if o.socket != "" {
		what = fmt.Sprintf("connect to %q", o.socket)
	}
	if strings.ContainsRune(o.socket, 0) || strings.ContainsRune(o.command, 0) {
		return nil, invalid(what, "a zero byte in the socket or the command")
	}
	if o.timeout <= 0 {
		return nil, invalid(what, "ConnectTimeout(%v): expected more than 0", o.timeout)
	}
	if ctx.Err() != nil {
		return nil, late(ctx, what)
	}
	result := make(chan error)
	client := &Client{
		gone:    make(chan struct{}),
		waiting: map[*handle]struct{}{},
		watched: map[*C.hf_lock]*Hold{},
	}
	go func() {
		err := client.connect(&o, what)
		select {
		case result <- err:
		case <-ctx.Done():
			if err == nil {
				C.hf_disconnect(client.pointer)
			}
		}
	}()
	select {
	case err := <-result:
		if err != nil {
			return nil, err
		}
		return client, nil
	case <-ctx.Done():
		return nil, late(ctx, what)
	}
}

func (c *Client) connect(o *clientOptions, what string) error {
	raw := C.struct_hf_options{
		size:               C.sizeof_struct_hf_options,
		connect_timeout_ns: C.int64_t(o.timeout),
	}
	if o.socket != "" {
		raw.socket = C.CString(o.socket)
		defer C.free(unsafe.Pointer(raw.socket))
	}
	if o.command != "" {
		raw.command = C.CString(o.command)
		defer C.free(unsafe.Pointer(raw.command))
	}
	return called(what, func() C.int { return C.hf_connect(&raw, &c.pointer) })
}

// Close releases all holds, ends their contexts with ErrClosed, and ends the connection. Calls that
// wait return ErrClosed. A second Close has no effect.
func (c *Client) Close() error {
	c.mutex.Lock()
	first := !c.closed
	c.closed = true
	c.mutex.Unlock()
	if !first {
		<-c.gone
		return nil
	}
	c.eventsStop()
	for hold := c.watchedAny(); hold != nil; hold = c.watchedAny() {
		hold.end(ErrClosed)
	}
	for c.cancelAll() {
		time.Sleep(cancelPause)
	}
	C.hf_disconnect(c.pointer)
	close(c.gone)
	return nil
}

// watchedAny removes one of the watched holds, and returns it.
func (c *Client) watchedAny() *Hold {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for lock, hold := range c.watched {
		delete(c.watched, lock)
		return hold
	}
	return nil
}

// cancelAll ends the waits that have begun. It returns whether calls still run.
func (c *Client) cancelAll() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for h := range c.waiting {
		C.hf_cancel(h.lock)
	}
	return c.calls > 0
}

// begin announces a call of the library: until end, Close does not free the client.
func (c *Client) begin() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.calls++
	return nil
}

func (c *Client) end() {
	c.mutex.Lock()
	c.calls--
	c.mutex.Unlock()
}

// take returns a handle with that key: one that is idle, or a new one. The caller has begun a call.
func (c *Client) take(ctx context.Context, key handleKey, what string) (*handle, error) {
	if h := c.takeIdle(key); h != nil {
		return h, nil
	}
	if ctx.Done() == nil {
		return c.open(key, what)
	}
	type opened struct {
		handle *handle
		err    error
	}
	// To open a handle, the library asks the agent, and cannot be interrupted. If ctx is done
	// first, the handle comes too late, and becomes idle.
	result := make(chan opened)
	c.mutex.Lock()
	c.calls++
	c.mutex.Unlock()
	go func() {
		defer c.end()
		h, err := c.open(key, what)
		select {
		case result <- opened{h, err}:
		case <-ctx.Done():
			if err == nil {
				c.giveBack(h)
			}
		}
	}()
	select {
	case o := <-result:
		return o.handle, o.err
	case <-ctx.Done():
		return nil, late(ctx, what)
	}
}

func (c *Client) takeIdle(key handleKey) *handle {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for i := len(c.idle) - 1; i >= 0; i-- {
		if h := c.idle[i]; h.key == key {
			c.idle = append(c.idle[:i], c.idle[i+1:]...)
			return h
		}
	}
	return nil
}

func (c *Client) open(key handleKey, what string) (*handle, error) {
	raw := C.struct_hf_lock_options{
		size:          C.sizeof_struct_hf_lock_options,
		lock_delay_ns: C.int64_t(key.lockDelay),
		lease_ns:      C.int64_t(key.lease),
		max_stall_ns:  C.int64_t(key.maxStall),
	}
	if key.barging {
		raw.flags = C.HF_BARGING
	}
	name := C.CString(key.name)
	defer C.free(unsafe.Pointer(name))
	h := &handle{key: key}
	err := called(what, func() C.int { return C.hf_open(c.pointer, name, &raw, &h.lock) })
	if err != nil {
		return nil, err
	}
	return h, nil
}

// giveBack makes a handle idle. If too many are idle, it closes the one that was used longest ago.
func (c *Client) giveBack(h *handle) {
	var old *handle
	c.mutex.Lock()
	c.idle = append(c.idle, h)
	for i := 0; len(c.idle) > idleMax && i < len(c.idle) && old == nil; i++ {
		if c.idle[i].asks == 0 {
			old = c.idle[i]
			c.idle = append(c.idle[:i], c.idle[i+1:]...)
		}
	}
	c.mutex.Unlock()
	if old != nil {
		C.hf_close(old.lock)
	}
}

// why asks why the handle does not get the lock, or why its hold ended. It returns nil if that
// cannot be found out within whyLimit. The caller has begun a call.
func (c *Client) why(h *handle) *Reason {
	result := make(chan *Reason, 1)
	c.mutex.Lock()
	c.calls++
	h.asks++
	c.mutex.Unlock()
	go func() {
		raw := C.struct_hf_reason{size: C.sizeof_struct_hf_reason}
		code := C.hf_why(h.lock, &raw)
		c.mutex.Lock()
		c.calls--
		h.asks--
		c.mutex.Unlock()
		if code < 0 {
			result <- nil
		} else {
			result <- reasonOf(&raw)
		}
	}()
	limit := time.NewTimer(whyLimit)
	defer limit.Stop()
	select {
	case reason := <-result:
		return reason
	case <-limit.C:
		return nil
	}
}

// CheckSequencer asks the agent whether the sequencer's hold is held now, and returns nil if it is.
// ErrStale: it is not. ErrUnknown: the agent cannot find that out now. ErrInvalid: the text is not
// a sequencer of this cell. The answer may be outdated when it arrives, so a resource that must
// never accept an old holder has to remember the highest token, and to refuse lower ones.
func (c *Client) CheckSequencer(sequencer string) error {
	return c.check(sequencer, func(text *C.char) C.int {
		return C.hf_check_sequencer(c.pointer, text)
	})
}

// CheckSequencerLocal returns ErrStale if this host has seen a higher token of that lock. The
// result nil does not mean that the hold counts. The first call for a namespace asks the agent.
func (c *Client) CheckSequencerLocal(sequencer string) error {
	return c.check(sequencer, func(text *C.char) C.int {
		return C.hf_check_sequencer_local(c.pointer, text)
	})
}

func (c *Client) check(sequencer string, call func(*C.char) C.int) error {
	what := fmt.Sprintf("sequencer %q", sequencer)
	if strings.ContainsRune(sequencer, 0) {
		return invalid(what, "a zero byte in it")
	}
	if err := c.begin(); err != nil {
		return err
	}
	defer c.end()
	text := C.CString(sequencer)
	defer C.free(unsafe.Pointer(text))
	return called(what, func() C.int { return call(text) })
}

// Version returns the version of the library, such as "0.1.0".
func Version() string {
	return C.GoString(C.hf_version())
}

// timeoutNS returns a timeout of the library: -1 is for ever.
func timeoutNS(timeout time.Duration) C.int64_t {
	if timeout == math.MaxInt64 {
		return C.HF_FOREVER
	}
	return C.int64_t(timeout)
}
