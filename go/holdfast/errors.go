package holdfast

// #include <holdfast/holdfast.h>
import "C"

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"
	"unicode"
)

// A Code is a failure of the library: the HF_E... of holdfast.h with the same name. Compare with
// errors.Is(err, holdfast.ErrBusy).
type Code int

const (
	ErrBusy        Code = C.HF_EBUSY        // a try failed: held, awaited or closed
	ErrTimeout     Code = C.HF_ETIMEDOUT    // the wait's timeout or the context's deadline was over
	ErrCanceled    Code = C.HF_ECANCELED    // the context was cancelled during the wait
	ErrLost        Code = C.HF_ELOST        // the hold had ended before it was unlocked
	ErrNotHeld     Code = C.HF_ENOTHELD     // the hold was unlocked before
	ErrNoAgent     Code = C.HF_ENOAGENT     // no agent answers at the socket
	ErrAccess      Code = C.HF_EACCES       // the agent's configuration forbids it
	ErrInvalid     Code = C.HF_EINVAL       // an argument is out of its range
	ErrNameTooLong Code = C.HF_ENAMETOOLONG // a lock name of more than 255 bytes
	ErrFull        Code = C.HF_EFULL        // the agent has no room
	ErrVersion     Code = C.HF_EVERSION     // library and agent share no version of the protocol
	ErrProtocol    Code = C.HF_EPROTO       // the agent's answer is invalid
	ErrNoMemory    Code = C.HF_ENOMEM       // no memory, or no file descriptor
	ErrStale       Code = C.HF_ESTALE       // the sequencer's hold is over
	ErrUnknown     Code = C.HF_EUNKNOWN     // the answer cannot be found out now
	ErrUnserved    Code = C.HF_EUNSERVED    // the agent does not serve this namespace now
)

// Error returns the library's text for the code.
func (code Code) Error() string {
	return C.GoString(C.hf_strerror(C.int(code)))
}

var (
	// ErrClosed is the result of calls on a Client that was closed, and on its holds.
	ErrClosed = errors.New("holdfast: the client is closed")
	// ErrUnlocked is the cause with which a hold's context ends when the hold is unlocked.
	ErrUnlocked = errors.New("holdfast: the hold was unlocked")
)

// An Error is a failure of a call, or the cause of the end of a hold's context.
type Error struct {
	What   string  // what the call was about, such as `lock "nightly-report"`
	Code   Code    // the library's code
	Reason *Reason // why the lock was not available, or why the hold ended; nil: not known
	err    error   // the context's error that ended the wait, if one did
	text   string  // if not empty: takes the place of the code's text
}

func (e *Error) Error() string {
	text := e.text
	if text == "" {
		text = e.Code.Error()
	}
	if e.Reason != nil && e.Reason.Text != "" {
		text += ": " + e.Reason.Text
	}
	return fmt.Sprintf("holdfast: %s: %s", e.What, text)
}

// Is makes errors.Is find the code.
func (e *Error) Is(target error) bool {
	return target == e.Code
}

// Unwrap returns the context's error if the context ended the wait, else nil.
func (e *Error) Unwrap() error {
	return e.err
}

// A ReasonKind says why a lock is not available, or why a hold ended. A later version of the
// library may have more kinds.
type ReasonKind int

const (
	WhyNothing     ReasonKind = C.HF_WHY_NOTHING      // nothing is known that prevents a take now
	WhyHeld        ReasonKind = C.HF_WHY_HELD         // a holder is known
	WhyAwaited     ReasonKind = C.HF_WHY_AWAITED      // no holder is known, and others wait
	WhyClosed      ReasonKind = C.HF_WHY_CLOSED       // a lock-delay keeps the lock closed
	WhyNoMajority  ReasonKind = C.HF_WHY_NO_MAJORITY  // no majority of the voters answers this host
	WhyNoAgent     ReasonKind = C.HF_WHY_NO_AGENT     // no agent answers on this host
	WhyUnknown     ReasonKind = C.HF_WHY_UNKNOWN      // a host that is silent may hold the lock
	WhyBroken      ReasonKind = C.HF_WHY_BROKEN       // ended: an administrator broke the hold
	WhyLeaseOver   ReasonKind = C.HF_WHY_LEASE_OVER   // ended: Lease was over
	WhyStalled     ReasonKind = C.HF_WHY_STALLED      // ended: no Progress for MaxStall
	WhySessionLost ReasonKind = C.HF_WHY_SESSION_LOST // ended: the host's session was not renewed
	WhyAgentGone   ReasonKind = C.HF_WHY_AGENT_GONE   // ended: no agent could renew the session
	WhyForgotten   ReasonKind = C.HF_WHY_FORGOTTEN    // ended: the agent does not know this process
	WhyDamaged     ReasonKind = C.HF_WHY_DAMAGED      // ended: invalid bytes in the shared memory
	WhyEnded       ReasonKind = C.HF_WHY_ENDED        // ended, and the reason is not known
)

// A Reason says why a lock is not available, or why a hold ended. A number or a duration that is
// not known is -1, and a text that is not known is empty.
type Reason struct {
	Kind    ReasonKind
	Text    string        // the whole reason in one line, without the lock's name
	Since   time.Duration // how long the reason has existed, or how long ago the hold ended
	Closed  time.Duration // for how long the lock stays closed; 0: it is not closed
	PID     int64         // the process of the first holder; of a closed lock: of the last one
	UID     int64         // the user of that holder, or the user that broke the hold
	Agent   string        // the agent on the host of that holder or user
	Command string        // the command line of that holder, maybe cut off
	Note    string        // the note of that holder, maybe cut off
	Holders uint64        // how many holders are known
	Waiters uint64        // how many waiters are known
}

func reasonOf(raw *C.struct_hf_reason) *Reason {
	return &Reason{
		Kind:    ReasonKind(raw.kind),
		Text:    printable(C.GoString(&raw.text[0])),
		Since:   time.Duration(raw.since_ns),
		Closed:  time.Duration(raw.closed_ns),
		PID:     int64(raw.pid),
		UID:     int64(raw.uid),
		Agent:   printable(C.GoString(&raw.agent[0])),
		Command: printable(C.GoString(&raw.command[0])),
		Note:    printable(C.GoString(&raw.note[0])),
		Holders: uint64(raw.holders),
		Waiters: uint64(raw.waiters),
	}
}

// printable replaces each character that a terminal should not get by a question mark.
func printable(text string) string {
	return strings.Map(func(char rune) rune {
		if !unicode.IsPrint(char) || char == unicode.ReplacementChar {
			return '?'
		}
		return char
	}, text)
}

// fail returns the error for a code below 0, and nil for any other code.
func fail(code C.int, what string) error {
	if code >= 0 {
		return nil
	}
	return &Error{What: what, Code: Code(code)}
}

// called runs a call of the library, and returns nil or its failure with the library's sentence
// about it. That sentence belongs to the thread of the call.
func called(what string, call func() C.int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	code := call()
	if code >= 0 {
		return nil
	}
	return &Error{What: what, Code: Code(code), text: printable(C.GoString(C.hf_error_text(nil)))}
}

func invalid(what, format string, arguments ...any) error {
	return &Error{What: what, Code: ErrInvalid, text: fmt.Sprintf(format, arguments...)}
}

// late returns the error for a wait that the context ended.
func late(ctx context.Context, what string) *Error {
	e := &Error{What: what, Code: ErrCanceled, err: ctx.Err(), text: "the wait was cancelled"}
	if errors.Is(e.err, context.DeadlineExceeded) {
		e.Code = ErrTimeout
		e.text = "the context's deadline was over first"
	}
	return e
}
