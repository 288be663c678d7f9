package holdfast

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A guard against hanging. It does not limit how soon anything has to happen.
const guard = 60 * time.Second

// The processes that the tests start end with the thread that started them. So that is the main
// thread, on which the runtime keeps the goroutine that init runs on.
func init() { runtime.LockOSThread() }

// starts gets the commands that the main goroutine has to start.
var starts = make(chan func())

func program(name string) string {
	if folder := os.Getenv("HOLDFAST_BIN_DIR"); folder != "" {
		return filepath.Join(folder, name)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		fmt.Fprintf(os.Stderr, "no %s: HOLDFAST_BIN_DIR names its folder\n", name)
		os.Exit(1)
	}
	return path
}

func start(command *exec.Cmd) error {
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	result := make(chan error)
	starts <- func() { result <- command.Start() }
	return <-result
}

// An agent is a running agent with a new folder of its own.
type agent struct {
	folder, socket string
	command        *exec.Cmd
}

func agentStart() (*agent, error) {
	folder, err := os.MkdirTemp("", "holdfast-go-")
	if err != nil {
		return nil, err
	}
	a := &agent{folder: folder, socket: filepath.Join(folder, "state", "agent.sock")}
	return a, a.start()
}

func (a *agent) start() error {
	log, err := os.OpenFile(filepath.Join(a.folder, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	a.command = exec.Command(program("holdfastd"), "--dev", "--state-dir", filepath.Dir(a.socket))
	a.command.Stdout, a.command.Stderr = log, log
	if err := start(a.command); err != nil {
		return err
	}
	// The agent gets the priority that its systemd unit gives it, so that no lease is lost on a busy
	// machine. Without the right to do so, the agent runs with the test's priority.
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, a.command.Process.Pid, -10)
	client, err := Connect(context.Background(), Socket(a.socket), ConnectTimeout(guard))
	if err != nil {
		text, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%w\n%s", err, text)
	}
	return client.Close()
}

// regions returns the files in shared memory. A stopped agent leaves them for the next one.
func (a *agent) regions() []string {
	maps, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", a.command.Process.Pid))
	return regexp.MustCompile(`/dev/shm/holdfast\.[A-Za-z0-9._-]*`).FindAllString(string(maps), -1)
}

func (a *agent) stop() {
	for _, region := range a.regions() {
		defer os.RemoveAll(region)
	}
	defer os.RemoveAll(a.folder)
	_ = a.command.Process.Signal(syscall.SIGTERM)
	_ = a.command.Wait()
}

func TestMain(m *testing.M) {
	status := make(chan int)
	go func() {
		a, err := agentStart()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			status <- 1
			return
		}
		os.Setenv("HOLDFAST_SOCKET", a.socket)
		result := m.Run()
		a.stop()
		status <- result
	}()
	for {
		select {
		case command := <-starts:
			command()
		case result := <-status:
			os.Exit(result)
		}
	}
}

// connect returns a client. When the test ends, the client is closed, and no goroutine may be left.
func connect(t *testing.T, options ...ClientOption) *Client {
	t.Helper()
	before := runtime.NumGoroutine()
	client, err := Connect(context.Background(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		if client.calls != 0 || len(client.waiting) != 0 || len(client.watched) != 0 {
			t.Errorf("left: %d calls, %d waits, %d watched holds", client.calls,
				len(client.waiting), len(client.watched))
		}
		goroutinesBackTo(t, before)
	})
	return client
}

func goroutinesBackTo(t *testing.T, count int) {
	t.Helper()
	eventually(t, func() bool { return runtime.NumGoroutine() <= count }, "goroutines end")
}

// eventually waits until the condition holds.
func eventually(t *testing.T, condition func() bool, what string) {
	t.Helper()
	for end := time.Now().Add(guard); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			stacks := make([]byte, 1<<16)
			t.Fatalf("did not come: %s\n%s", what, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// lock takes a lock that is free.
func lock(t *testing.T, client *Client, name string, options ...Option) *Hold {
	t.Helper()
	hold, err := client.Lock(context.Background(), name, append(options, Timeout(guard))...)
	if err != nil {
		t.Fatal(err)
	}
	return hold
}

func unlock(t *testing.T, hold *Hold) {
	t.Helper()
	if err := hold.Unlock(); err != nil {
		t.Fatal(err)
	}
}

// isFree checks that nobody holds the lock.
func isFree(t *testing.T, client *Client, name string) {
	t.Helper()
	hold, err := client.Lock(context.Background(), name, Try())
	if err != nil {
		t.Fatal(err)
	}
	unlock(t, hold)
}

// isError checks that the error is one with that code, and returns it.
func isError(t *testing.T, err error, code Code) *Error {
	t.Helper()
	var e *Error
	if !errors.Is(err, code) || !errors.As(err, &e) || e.Code != code {
		t.Fatalf("%v, expected: %v", err, code)
	}
	return e
}

// ended waits for the end of a context and returns its cause.
func ended(t *testing.T, ctx context.Context) error {
	t.Helper()
	select {
	case <-ctx.Done():
	case <-time.After(guard):
		t.Fatal("the context did not end")
	}
	return Cause(ctx)
}

func command(t *testing.T, words ...string) {
	t.Helper()
	if text, err := exec.Command(program("holdfast"), words...).CombinedOutput(); err != nil {
		t.Fatalf("holdfast %s: %v\n%s", strings.Join(words, " "), err, text)
	}
}

// A holder is another process that holds a lock. The process that holds is the command `holdfast`.
type holder struct {
	command *exec.Cmd
	input   io.WriteCloser
}

func holderStart(t *testing.T, name string) *holder {
	t.Helper()
	h := &holder{command: exec.Command(program("holdfast"), "lock", name, "--", "sh", "-c",
		"echo held; read -r line")}
	h.input, _ = h.command.StdinPipe()
	output, _ := h.command.StdoutPipe()
	if err := start(h.command); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(output).ReadString('\n'); line != "held\n" {
		t.Fatalf("the holder says %q: %v", line, err)
	}
	return h
}

func (h *holder) end() {
	h.input.Close()
	_ = h.command.Wait()
}
