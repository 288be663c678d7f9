// The client of etcd that is measured: etcd's own Go package `concurrency` (a session with a TTL
// that the package keeps alive, Mutex.Lock and Mutex.Unlock). It is built as a C library that the
// worker loads after its fork. So the loop and the clock are those of the harness. A call from C
// into Go and back costs well under a microsecond.
//
// This file does what a careful user of the package does. If a server is gone or has no leader, it
// tries again until the time is over. If a session has ended, it begins a new one before the next
// lock.
package main

// #include <stdint.h>
import "C"

import (
	"context"
	"os"
	"runtime/cgo"
	"strings"
	"time"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/grpclog"
)

const (
	ok        = 0
	notInTime = 1
	lost      = 2
	failed    = -1
)

const (
	callTimeout    = 10 * time.Second
	releaseTimeout = 20 * time.Second
	pauseOnError   = 10 * time.Millisecond
)

type client struct {
	etcd    *clientv3.Client
	session *concurrency.Session
	ttl     int
}

type lock struct {
	owner   *client
	prefix  string
	session *concurrency.Session // the session of `mutex`
	mutex   *concurrency.Mutex
}

func ended(session *concurrency.Session) bool {
	select {
	case <-session.Done():
		return true
	default:
		return false
	}
}

// Makes sure that c.session is a session that, as far as the client knows, has not ended.
func (c *client) live(ctx context.Context) error {
	if c.session != nil && !ended(c.session) {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	lease, err := c.etcd.Grant(bounded, int64(c.ttl))
	if err != nil {
		return err
	}
	c.session, err = concurrency.NewSession(c.etcd, concurrency.WithTTL(c.ttl),
		concurrency.WithLease(lease.ID))
	return err
}

func complain(err error) C.int {
	os.Stderr.WriteString("etcd: " + err.Error() + "\n")
	return failed
}

//export etcd_connect
func etcd_connect(endpoints *C.char, ttl C.int, out *C.uintptr_t) C.int {
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(nowhere{}, nowhere{}, nowhere{}))
	quiet := zap.NewProductionConfig()
	quiet.Level = zap.NewAtomicLevelAt(zap.FatalLevel)
	c := &client{ttl: int(ttl)}
	var err error
	c.etcd, err = clientv3.New(clientv3.Config{
		Endpoints:   strings.Split(C.GoString(endpoints), ","),
		DialTimeout: callTimeout,
		DialOptions: []grpc.DialOption{grpc.WithBlock()},
		LogConfig:   &quiet,
	})
	if err == nil {
		err = c.live(context.Background())
	}
	if err != nil {
		return complain(err)
	}
	*out = C.uintptr_t(cgo.NewHandle(c))
	return ok
}

// Drops the package's log of connections that come and go.
type nowhere struct{}

func (nowhere) Write(text []byte) (int, error) { return len(text), nil }

//export etcd_disconnect
func etcd_disconnect(handle C.uintptr_t) {
	c := cgo.Handle(handle).Value().(*client)
	if c.session != nil && !ended(c.session) {
		c.session.Close()
	}
	c.etcd.Close()
	cgo.Handle(handle).Delete()
}

//export etcd_open
func etcd_open(handle C.uintptr_t, name *C.char) C.uintptr_t {
	c := cgo.Handle(handle).Value().(*client)
	return C.uintptr_t(cgo.NewHandle(&lock{owner: c, prefix: "/locks/" + C.GoString(name)}))
}

//export etcd_close
func etcd_close(handle C.uintptr_t) {
	cgo.Handle(handle).Delete()
}

func (l *lock) take(ctx context.Context) error {
	if err := l.owner.live(ctx); err != nil {
		return err
	}
	if l.mutex == nil || l.session != l.owner.session {
		l.session = l.owner.session
		l.mutex = concurrency.NewMutex(l.session, l.prefix)
	}
	err := l.mutex.Lock(ctx)
	if err != nil && strings.Contains(err.Error(), "lease not found") {
		l.session.Orphan() // the servers have forgotten the session, so live() must begin a new one
	}
	return err
}

// The token is the revision in the answer that granted the lock. It is higher than the revision of
// everything that the previous holder did.
//
//export etcd_acquire
func etcd_acquire(handle C.uintptr_t, timeoutNs C.int64_t, token *C.uint64_t) C.int {
	l := cgo.Handle(handle).Value().(*lock)
	ctx := context.Background()
	if timeoutNs >= 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(timeoutNs))
		defer cancel()
	}
	for {
		err := l.take(ctx)
		if err == nil {
			*token = C.uint64_t(l.mutex.Header().Revision)
			return ok
		}
		if ctx.Err() != nil {
			return notInTime
		}
		time.Sleep(pauseOnError)
	}
}

//export etcd_release
func etcd_release(handle C.uintptr_t) C.int {
	l := cgo.Handle(handle).Value().(*lock)
	if l.mutex == nil {
		return failed
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	for {
		if ended(l.session) {
			return lost
		}
		err := l.mutex.Unlock(ctx)
		if err == nil {
			return ok
		}
		if ctx.Err() != nil {
			return complain(err)
		}
		time.Sleep(pauseOnError)
	}
}

//export etcd_held
func etcd_held(handle C.uintptr_t) C.int {
	l := cgo.Handle(handle).Value().(*lock)
	if l.mutex == nil || ended(l.session) {
		return lost
	}
	return ok
}

func main() {}
