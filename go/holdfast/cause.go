//go:build go1.20

package holdfast

import "context"

// withCause returns a context that ends with a cause.
func withCause(parent context.Context) (context.Context, func(error)) {
	return context.WithCancelCause(parent)
}

// Cause says why a context that is a hold's context, or comes from one, has ended: an *Error with
// the code ErrLost, ErrUnlocked, ErrClosed, or why its parent ended. It is nil while the context
// goes on. Since Go 1.20 it is the same as context.Cause.
func Cause(ctx context.Context) error {
	return context.Cause(ctx)
}
