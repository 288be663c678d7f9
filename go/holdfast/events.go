package holdfast

/*
#include <errno.h>
#include <poll.h>
#include <holdfast/holdfast.h>

// Waits until the client may have an event. Returns 0 as soon as stop_fd is readable.
static int events_wait(int event_fd, int stop_fd)
{
    struct pollfd fds[2] = {{event_fd, POLLIN, 0}, {stop_fd, POLLIN, 0}};
    while (poll(fds, 2, -1) < 0 && (errno == EINTR || errno == EAGAIN)) {
    }
    return fds[1].revents == 0;
}
*/
import "C"

import (
	"os"
)

// events is the goroutine of a client that ends the contexts of lost holds. It waits in poll(2) on
// a thread of its own, because the descriptor belongs to the library, and the Go runtime's poller
// wants to own what it polls.
type events struct {
	stop    *os.File // the write end of a pipe: closing it ends the goroutine
	stopped chan struct{}
}

// eventsStart starts the goroutine, unless it runs. The caller has begun a call.
func (c *Client) eventsStart() error {
	c.mutex.Lock()
	running := c.events != nil
	c.mutex.Unlock()
	if running {
		return nil
	}
	fd := C.hf_event_fd(c.pointer) // this call asks the agent, so the mutex must not be locked
	if fd < 0 {
		return fail(fd, "events")
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.events != nil {
		return nil
	}
	if c.closed {
		return ErrClosed
	}
	read, write, err := os.Pipe()
	if err != nil {
		return &Error{What: "events", Code: ErrNoMemory, err: err, text: err.Error()}
	}
	c.events = &events{stop: write, stopped: make(chan struct{})}
	go c.eventsRun(fd, read, c.events.stopped)
	return nil
}

// eventsStop ends the goroutine and waits for that. Close calls it after c.closed is set, so it
// does not start again.
func (c *Client) eventsStop() {
	c.mutex.Lock()
	events := c.events
	c.mutex.Unlock()
	if events != nil {
		events.stop.Close()
		<-events.stopped
	}
}

func (c *Client) eventsRun(fd C.int, stop *os.File, stopped chan<- struct{}) {
	defer close(stopped)
	defer stop.Close()
	stopFD := C.int(stop.Fd())
	for C.events_wait(fd, stopFD) != 0 {
		var event C.struct_hf_event
		for C.hf_next_event(c.pointer, &event) == 1 {
			if event.kind == C.HF_EVENT_LOST || event.kind == C.HF_EVENT_JEOPARDY {
				c.eventLost(event.lock)
			}
		}
	}
}

// eventLost ends the context of the handle's hold, if that hold does not count. (An event may be
// about an earlier hold of the handle.)
func (c *Client) eventLost(lock *C.hf_lock) {
	c.mutex.Lock()
	hold := c.watched[lock]
	c.mutex.Unlock()
	// A hold that is being unlocked has the mutex; Unlock then ends the context.
	if hold == nil || !hold.mutex.TryRLock() {
		return
	}
	defer hold.mutex.RUnlock()
	if hold.handle != nil && C.hf_remaining_ns(hold.handle.lock) == 0 {
		hold.end(hold.lost(hold.handle))
	}
}
