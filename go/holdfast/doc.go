// Package holdfast takes locks of Holdfast, a lock service for Linux hosts, through the library
// libholdfast and the agent of this host.
//
//	client, err := holdfast.Connect(ctx)
//	...
//	defer client.Close()
//	hold, err := client.Lock(ctx, "nightly-report")
//	...
//	defer hold.Unlock()
//	err = write(hold.Context(), report, hold.Token())
//
// A hold is a lease. The agent renews the lease, so the program need not do anything for that. When
// the hold is lost, the context that Hold.Context returns ends, and Cause says why. A process that
// was stopped notices nothing in time. So give Hold.Token to the resource that you write to, and
// let the resource refuse lower tokens.
//
// Goroutines may share a Client and a Hold, and call everything at any time. A hold belongs to no
// thread, so a goroutine needs no runtime.LockOSThread: any goroutine may unlock what another one
// has locked. Two calls of Lock exclude each other like those of two processes, so a goroutine that
// locks a name again waits for itself.
//
// While a goroutine waits for a lock, it keeps a thread of the operating system busy, because the
// library waits inside of one call.
package holdfast
