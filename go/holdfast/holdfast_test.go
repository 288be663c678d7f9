package holdfast

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestGoroutinesExcludeEachOther(t *testing.T) {
	client := connect(t)
	var inside, worst, done int // only the lock protects them
	var tokens []uint64
	var group sync.WaitGroup
	for i := 0; i < 8; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := 0; i < 50; i++ {
				hold := lock(t, client, "goroutines")
				inside++
				if inside > worst {
					worst = inside
				}
				tokens = append(tokens, hold.Token())
				inside--
				done++
				unlock(t, hold)
			}
		}()
	}
	group.Wait()
	if worst != 1 || done != 400 {
		t.Errorf("%d at once, %d done", worst, done)
	}
	for i := range tokens[1:] {
		if tokens[i] >= tokens[i+1] {
			t.Errorf("token %d, then %d", tokens[i], tokens[i+1])
		}
	}
	if len(client.idle) > 8 {
		t.Errorf("%d handles, so they are not used again", len(client.idle))
	}
}

func TestAnotherGoroutineUnlocks(t *testing.T) {
	client := connect(t)
	holds := make(chan *Hold)
	go func() { holds <- lock(t, client, "handed on") }()
	unlock(t, <-holds)
	isFree(t, client, "handed on")
}

func TestProcessesExcludeEachOther(t *testing.T) {
	client := connect(t)
	other := holderStart(t, "processes")
	_, err := client.Lock(context.Background(), "processes", Try())
	e := isError(t, err, ErrBusy)
	if e.Reason == nil || e.Reason.Kind != WhyHeld || e.Reason.Holders != 1 ||
		e.Reason.PID != int64(other.command.Process.Pid) || e.Reason.UID != int64(os.Getuid()) {
		t.Errorf("the reason is %+v", e.Reason)
	}
	if text := err.Error(); !strings.Contains(text, `lock "processes"`) ||
		!strings.Contains(text, e.Reason.Text) {
		t.Errorf("the error says %q", text)
	}
	other.end()
	unlock(t, lock(t, client, "processes"))
}

func TestShared(t *testing.T) {
	client := connect(t)
	one, two := lock(t, client, "shared", Shared()), lock(t, client, "shared", Shared())
	if !one.IsShared() || one.Token() > two.Token() {
		t.Errorf("shared: %v, tokens %d and %d", one.IsShared(), one.Token(), two.Token())
	}
	_, err := client.Lock(context.Background(), "shared", Try())
	isError(t, err, ErrBusy)
	unlock(t, one)
	unlock(t, two)
	isFree(t, client, "shared")
}

func TestDowngrade(t *testing.T) {
	client := connect(t)
	hold := lock(t, client, "down")
	want := fmt.Sprintf("hold of down (exclusive, token %d)", hold.Token())
	if fmt.Sprint(hold) != want {
		t.Errorf("found %v, expected %s", hold, want)
	}
	if err := hold.Downgrade(); err != nil || !hold.IsShared() {
		t.Errorf("%v, shared: %v", err, hold.IsShared())
	}
	want = fmt.Sprintf("hold of down (shared, token %d)", hold.Token())
	if hold.String() != want {
		t.Errorf("found %v, expected %s", hold, want)
	}
	unlock(t, lock(t, client, "down", Shared()))
	unlock(t, hold)
}

func TestTimeout(t *testing.T) {
	client := connect(t)
	hold := lock(t, client, "late")
	defer unlock(t, hold)
	_, err := client.Lock(context.Background(), "late", Timeout(20*time.Millisecond))
	e := isError(t, err, ErrTimeout)
	if e.Reason == nil || e.Reason.PID != int64(os.Getpid()) {
		t.Errorf("the reason is %+v", e.Reason)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err = client.Lock(ctx, "late")
	e = isError(t, err, ErrTimeout)
	if !errors.Is(err, context.DeadlineExceeded) || e.Reason == nil || e.Reason.Kind != WhyHeld {
		t.Errorf("%v, the reason is %+v", err, e.Reason)
	}
}

func TestCancel(t *testing.T) {
	client := connect(t)
	hold := lock(t, client, "cancel")
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error)
	go func() {
		_, err := client.Lock(ctx, "cancel")
		result <- err
	}()
	eventually(t, func() bool {
		client.mutex.Lock()
		defer client.mutex.Unlock()
		return len(client.waiting) == 1
	}, "a wait")
	cancel()
	err := <-result
	isError(t, err, ErrCanceled)
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	_, err = client.Lock(ctx, "free")
	isError(t, err, ErrCanceled)
	unlock(t, hold)
	isFree(t, client, "cancel")
}

// A context may end at any moment of a wait: before it begins, while the lock comes, and after
// that. Lock then returns either a hold or an error, leaves no other hold, and cancels no other
// wait.
func TestCancelAtAnyMoment(t *testing.T) {
	client := connect(t)
	for i := 0; i < 300; i++ {
		hold := lock(t, client, "moments")
		ctx, cancel := context.WithCancel(context.Background())
		var group sync.WaitGroup
		for _, action := range []func(){cancel, func() { unlock(t, hold) }} {
			group.Add(1)
			pause := time.Duration(rand.Intn(300)) * time.Microsecond
			go func(action func()) {
				defer group.Done()
				time.Sleep(pause)
				action()
			}(action)
		}
		got, err := client.Lock(ctx, "moments")
		if err == nil {
			unlock(t, got)
		} else {
			isError(t, err, ErrCanceled)
		}
		group.Wait()
		isFree(t, client, "moments")
	}
}

func TestContextEndsWhenTheHoldIsBroken(t *testing.T) {
	client := connect(t)
	type key struct{}
	parent := context.WithValue(context.Background(), key{}, "value")
	hold, err := client.Lock(parent, "broken")
	if err != nil {
		t.Fatal(err)
	}
	ctx := hold.Context()
	if ctx.Err() != nil || Cause(ctx) != nil || ctx.Value(key{}) != "value" {
		t.Fatalf("%v, %v, %v", ctx.Err(), Cause(ctx), ctx.Value(key{}))
	}
	child, cancel := context.WithCancel(ctx)
	defer cancel()
	command(t, "break", "--now", "broken")
	for _, ctx := range []context.Context{ctx, child} {
		e := isError(t, ended(t, ctx), ErrLost)
		if e.Reason == nil || e.Reason.Kind != WhyBroken {
			t.Errorf("the reason is %+v", e.Reason)
		}
		if !errors.Is(ctx.Err(), context.Canceled) {
			t.Errorf("the context's error is %v", ctx.Err())
		}
	}
	isError(t, hold.Check(), ErrLost)
	isError(t, hold.Progress(), ErrLost)
	if hold.Remaining() != 0 || !hold.Deadline().IsZero() {
		t.Errorf("remaining %v, deadline %v", hold.Remaining(), hold.Deadline())
	}
	e := isError(t, hold.Unlock(), ErrLost)
	if e.Reason == nil || e.Reason.Kind != WhyBroken {
		t.Errorf("the reason is %+v", e.Reason)
	}
	isFree(t, client, "broken")
}

func TestContextAfterTheLoss(t *testing.T) {
	client := connect(t)
	lock(t, client, "other").Context() // from here on the client reads its events
	hold := lock(t, client, "broken before")
	command(t, "break", "--now", "broken before")
	eventually(t, func() bool { return hold.Remaining() == 0 }, "the loss")
	time.Sleep(50 * time.Millisecond) // the event of the loss has been read by now
	isError(t, ended(t, hold.Context()), ErrLost)
	isError(t, hold.Unlock(), ErrLost)
}

// The handle of a lost hold serves the next hold, whose context must go on.
func TestContextOfTheNextHold(t *testing.T) {
	client := connect(t)
	for i := 0; i < 50; i++ {
		first := lock(t, client, "next")
		first.Context()
		if i%2 == 0 {
			command(t, "break", "--now", "next")
			eventually(t, func() bool { return first.Remaining() == 0 }, "the loss")
			isError(t, first.Unlock(), ErrLost)
		} else {
			unlock(t, first)
		}
		second := lock(t, client, "next")
		ctx := second.Context()
		client.eventLost(second.handle.lock) // as if a late event about the first hold arrived
		if ctx.Err() != nil {
			t.Fatal(Cause(ctx))
		}
		unlock(t, second)
	}
}

func TestContextEndsByTheLease(t *testing.T) {
	client := connect(t)
	hold := lock(t, client, "lease", Lease(100*time.Millisecond))
	if remaining := hold.Remaining(); remaining > 100*time.Millisecond {
		t.Errorf("%v remain", remaining)
	}
	e := isError(t, ended(t, hold.Context()), ErrLost)
	if e.Reason == nil || e.Reason.Kind != WhyLeaseOver {
		t.Errorf("the reason is %+v", e.Reason)
	}
	isError(t, hold.Unlock(), ErrLost)
}

func TestMaxStall(t *testing.T) {
	client := connect(t)
	hold := lock(t, client, "stall", MaxStall(2*time.Second))
	ctx := hold.Context()
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
		if err := hold.Progress(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	e := isError(t, ended(t, ctx), ErrLost)
	if e.Reason == nil || e.Reason.Kind != WhyStalled {
		t.Errorf("the reason is %+v", e.Reason)
	}
	isError(t, hold.Unlock(), ErrLost)
}

func TestContextEndsWithoutAnAgent(t *testing.T) {
	a, err := agentStart()
	if err != nil {
		t.Fatal(err)
	}
	client := connect(t, Socket(a.socket))
	hold := lock(t, client, "alone")
	ctx := hold.Context()
	regions := a.regions()
	_ = a.command.Process.Kill()
	_ = a.command.Wait()
	deadline := hold.Deadline()
	e := isError(t, ended(t, ctx), ErrLost)
	// The context ends with the lease, at the deadline. The hold is lost only 5 s later.
	if after := time.Since(deadline); after < 0 || after > 4500*time.Millisecond {
		t.Errorf("the context ended %v after the deadline", after)
	}
	if e.Reason != nil && e.Reason.Kind != WhyAgentGone && e.Reason.Kind != WhySessionLost {
		t.Errorf("the reason is %+v", e.Reason)
	}
	if hold.Remaining() != 0 {
		t.Errorf("remaining %v", hold.Remaining())
	}
	for _, region := range regions {
		defer os.RemoveAll(region)
	}
	// an agent that comes back serves the same client
	if err := a.start(); err != nil {
		t.Fatal(err)
	}
	defer a.stop()
	_ = hold.Unlock() // whether the hold counts again depends on how long all this took
	unlock(t, lock(t, client, "alone"))
}

func TestContextEndsWithUnlock(t *testing.T) {
	client := connect(t)
	parent, cancel := context.WithCancel(context.Background())
	defer cancel()
	hold, err := client.Lock(parent, "unlock")
	if err != nil {
		t.Fatal(err)
	}
	ctx := hold.Context()
	unlock(t, hold)
	if err := ended(t, ctx); err != ErrUnlocked {
		t.Error(err)
	}
	isError(t, hold.Unlock(), ErrNotHeld)
	isError(t, hold.Check(), ErrNotHeld)
	if hold.Remaining() != 0 {
		t.Errorf("remaining %v", hold.Remaining())
	}

	hold, err = client.Lock(parent, "unlock")
	if err != nil {
		t.Fatal(err)
	}
	unlock(t, hold)
	if err := ended(t, hold.Context()); err != ErrUnlocked {
		t.Error(err)
	}

	hold, err = client.Lock(parent, "unlock")
	if err != nil {
		t.Fatal(err)
	}
	ctx = hold.Context()
	cancel()
	if err := ended(t, ctx); err != context.Canceled {
		t.Error(err)
	}
	unlock(t, hold)
}

func TestDeadline(t *testing.T) {
	client := connect(t)
	hold := lock(t, client, "deadline")
	if r := hold.Remaining(); r <= 0 || r > time.Minute {
		t.Errorf("remaining %v", r)
	}
	if d := time.Until(hold.Deadline()); d <= 0 || d > time.Minute {
		t.Errorf("deadline in %v", d)
	}
	if err := hold.Check(); err != nil {
		t.Error(err)
	}
	unlock(t, hold)
}

func TestSequencer(t *testing.T) {
	client := connect(t)
	hold := lock(t, client, "sequencer")
	sequencer, err := hold.Sequencer()
	if err != nil || !strings.Contains(sequencer, "sequencer") {
		t.Fatal(sequencer, err)
	}
	if err := client.CheckSequencer(sequencer); err != nil {
		t.Error(err)
	}
	if err := client.CheckSequencerLocal(sequencer); err != nil {
		t.Error(err)
	}
	unlock(t, hold)
	isError(t, client.CheckSequencer(sequencer), ErrStale)
	unlock(t, lock(t, client, "sequencer"))
	isError(t, client.CheckSequencerLocal(sequencer), ErrStale)
	if err := client.CheckSequencer("nonsense"); !strings.Contains(err.Error(), "no sequencer") {
		t.Error(err)
	}
	isError(t, client.CheckSequencer("nonsense"), ErrInvalid)
	isError(t, client.CheckSequencer("a\x00b"), ErrInvalid)
	_, err = hold.Sequencer()
	isError(t, err, ErrNotHeld)
}

func TestClose(t *testing.T) {
	client := connect(t)
	hold := lock(t, client, "close")
	ctx := hold.Context()
	results := make(chan error)
	for i := 0; i < 5; i++ {
		go func() {
			_, err := client.Lock(context.Background(), "close")
			results <- err
		}()
	}
	eventually(t, func() bool {
		client.mutex.Lock()
		defer client.mutex.Unlock()
		return len(client.waiting) == 5
	}, "five waits")
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	for i := 0; i < 5; i++ {
		if err := <-results; err != ErrClosed {
			t.Error(err)
		}
	}
	if err := ended(t, ctx); err != ErrClosed {
		t.Error(err)
	}
	_, err := client.Lock(context.Background(), "close")
	for _, err := range []error{err, hold.Unlock(), hold.Check(), client.CheckSequencer("a")} {
		if err != ErrClosed {
			t.Error(err)
		}
	}
	if !strings.HasPrefix(ErrClosed.Error(), "holdfast: ") {
		t.Error(ErrClosed)
	}
	if hold.Remaining() != 0 || client.Close() != nil {
		t.Error("a closed client has a hold, or fails to close again")
	}
	isFree(t, connect(t), "close")
}

// Clients are closed while goroutines do everything with them.
func TestCloseAtAnyMoment(t *testing.T) {
	for i := 0; i < 20; i++ {
		client := connect(t)
		var group sync.WaitGroup
		for i := 0; i < 4; i++ {
			group.Add(1)
			go func() {
				defer group.Done()
				for {
					ctx, cancel := context.WithTimeout(context.Background(), 2*time.Millisecond)
					hold, err := client.Lock(ctx, "everything")
					if err == nil {
						hold.Context()
						_, _ = hold.Sequencer()
						_ = hold.Unlock()
					}
					cancel()
					if err == ErrClosed {
						return
					}
				}
			}()
		}
		time.Sleep(time.Duration(rand.Intn(20)) * time.Millisecond)
		client.Close()
		group.Wait()
	}
}

func TestHandlesAreBounded(t *testing.T) {
	client := connect(t)
	for i := 0; i < 3*idleMax; i++ {
		unlock(t, lock(t, client, fmt.Sprintf("names/%d", i)))
	}
	if len(client.idle) != idleMax {
		t.Errorf("%d handles are idle", len(client.idle))
	}
	// another option needs another handle
	unlock(t, lock(t, client, fmt.Sprintf("names/%d", 3*idleMax-1), Barging(), LockDelay(0)))
}

func TestManyWaiters(t *testing.T) {
	client := connect(t)
	hold := lock(t, client, "many")
	results := make(chan error)
	for i := 0; i < 100; i++ {
		go func() {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			hold, err := client.Lock(ctx, "many")
			if err == nil {
				err = hold.Unlock()
			}
			results <- err
		}()
	}
	unlock(t, hold)
	for i := 0; i < 100; i++ {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

// A program that starts other programs keeps its holds.
func TestOtherPrograms(t *testing.T) {
	client := connect(t)
	hold := lock(t, client, "programs")
	for i := 0; i < 20; i++ {
		if err := exec.CommandContext(hold.Context(), "true").Run(); err != nil {
			t.Fatal(err)
		}
	}
	unlock(t, hold)
}

func TestNote(t *testing.T) {
	client := connect(t)
	for _, note := range []string{"migration 42", "", "another"} {
		hold := lock(t, client, "noted", Note(note))
		_, err := client.Lock(context.Background(), "noted", Try())
		isError(t, err, ErrBusy)
		var failed *Error
		if !errors.As(err, &failed) || failed.Reason == nil || failed.Reason.Note != note {
			t.Errorf("%v: the note is not %q", err, note)
		}
		unlock(t, hold)
	}
}

func TestInvalid(t *testing.T) {
	client := connect(t)
	for _, c := range []struct {
		name     string
		option   Option
		code     Code
		expected string
	}{
		{"", Try(), ErrInvalid, "expected 1 to 255 bytes"},
		{"a\nb", Try(), ErrInvalid, "byte 2 is 0x0A"},
		{"a\x00b", Try(), ErrInvalid, "zero byte"},
		{strings.Repeat("n", 256), Try(), ErrNameTooLong, "at most 255"},
		{"n", Lease(0), ErrInvalid, "Lease(0s): expected at least 1ms"},
		{"n", MaxStall(time.Nanosecond), ErrInvalid, "MaxStall(1ns): expected at least 1ms"},
		{"n", LockDelay(-1), ErrInvalid, "LockDelay(-1ns): expected 0s to 1m0s"},
		{"n", LockDelay(time.Hour), ErrInvalid, "LockDelay(1h0m0s): expected"},
		{"n", Note(strings.Repeat("n", 257)), ErrInvalid, "Note: 257 bytes, expected at most 256"},
		{"n", Timeout(0), ErrInvalid, "Timeout(0s): expected more than 0"},
	} {
		_, err := client.Lock(context.Background(), c.name, c.option)
		isError(t, err, c.code)
		if !strings.Contains(err.Error(), c.expected) {
			t.Errorf("%v, expected: %s", err, c.expected)
		}
	}
}

func TestConnect(t *testing.T) {
	nobody := t.TempDir() + "/nobody.sock"
	for _, c := range []struct {
		option   ClientOption
		code     Code
		expected string
	}{
		{Socket(nobody), ErrNoAgent, "no agent answers at " + nobody + ": No such file"},
		{Socket("a\x00b"), ErrInvalid, "a zero byte"},
		{Socket(strings.Repeat("s", 200)), ErrInvalid, "200 bytes"},
		{ConnectTimeout(-1), ErrInvalid, "expected more than 0"},
		{Command("a\x00b"), ErrInvalid, "a zero byte"},
	} {
		_, err := Connect(context.Background(), ConnectTimeout(50*time.Millisecond), c.option)
		isError(t, err, c.code)
		if !strings.Contains(err.Error(), c.expected) {
			t.Errorf("%v, expected: %s", err, c.expected)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	for i := 0; i < 2; i++ { // the second time, the context has ended before
		_, err := Connect(ctx, Socket(nobody), ConnectTimeout(200*time.Millisecond))
		isError(t, err, ErrTimeout)
	}
	client := connect(t, Command("a name of its own"))
	hold := lock(t, client, "command")
	_, err := client.Lock(context.Background(), "command", Try())
	if e := isError(t, err, ErrBusy); e.Reason == nil || e.Reason.Command != "a name of its own" {
		t.Errorf("the reason is %+v", e.Reason)
	}
	unlock(t, hold)
	if Version() == "" {
		t.Error("no version")
	}
}

func TestPrintable(t *testing.T) {
	if text := printable("a\x1b[1mé\xff\n"); text != "a?[1mé??" {
		t.Errorf("%q", text)
	}
}

func Example() {
	ctx := context.Background()
	client, err := Connect(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	hold, err := client.Lock(ctx, "nightly-report", Timeout(10*time.Second))
	if err != nil {
		fmt.Println(err) // names the holder
		return
	}
	// the command is killed when the hold is lost
	output, err := exec.CommandContext(hold.Context(), "echo", "written").Output()
	if err == nil {
		err = hold.Unlock() // ErrLost: the hold had ended before
	}
	fmt.Print(string(output))
	if err != nil {
		fmt.Println(err)
	}
	// Output: written
}

func BenchmarkLockUnlock(b *testing.B) {
	client, err := Connect(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for i := 0; i < b.N; i++ {
		hold, err := client.Lock(ctx, "benchmark")
		if err != nil {
			b.Fatal(err)
		}
		if err := hold.Unlock(); err != nil {
			b.Fatal(err)
		}
	}
}
