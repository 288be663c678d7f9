//go:build !go1.20

package holdfast

import (
	"context"
	"sync"
)

// A causeContext keeps the cause of its end, which contexts do by themselves since Go 1.20.
type causeContext struct {
	context.Context
	mutex sync.Mutex
	cause error
}

type causeKey struct{}

// Value lets Cause find the causeContext from the contexts that come from it.
func (c *causeContext) Value(key any) any {
	if key == (causeKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// withCause returns a context that ends with a cause.
func withCause(parent context.Context) (context.Context, func(error)) {
	ctx, cancel := context.WithCancel(parent)
	c := &causeContext{Context: ctx}
	return c, func(cause error) {
		c.mutex.Lock()
		if c.cause == nil && ctx.Err() == nil {
			c.cause = cause
		}
		c.mutex.Unlock()
		cancel()
	}
}

// Cause says why a context that is a hold's context, or comes from one, has ended: an *Error with
// the code ErrLost, ErrUnlocked, ErrClosed, or the error of its parent. It is nil while the context
// goes on. Since Go 1.20 it is the same as context.Cause.
func Cause(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	if c, ok := ctx.Value(causeKey{}).(*causeContext); ok {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		if c.cause != nil {
			return c.cause
		}
	}
	return ctx.Err()
}
