// One worker at a time, in Go.
//
// Usage: shift NAME JOURNAL
//
// Several of these processes run at once, on one host or on all hosts of a cell. The one that has
// the lock works: two of its goroutines write to the journal until the hold's context ends, and
// then the next process works. When a hold is lost, its context ends by itself, and the process
// gets in line again. SIGTERM ends the process after the line that it writes.
//
// A goroutine looks at the context before each line. That is not enough if the process is stopped
// between the look and the write: a server in place of the file would refuse a token lower than the
// highest one that it has seen (resource.c has such a server).
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"holdfast"
)

// write writes lines until the context of the hold ends.
func write(ctx context.Context, hold *holdfast.Hold, name string, journal *os.File) {
	for ctx.Err() == nil {
		fmt.Fprintf(journal, "%d %s\n", hold.Token(), name)
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// shift waits for the lock, and works until the hold ends.
func shift(ctx context.Context, client *holdfast.Client, name string, journal *os.File) error {
	hold, err := client.Lock(ctx, "shift") // waits as long as it takes, or until SIGTERM
	if err != nil {
		return err
	}
	fmt.Printf("%s works with token %d\n", name, hold.Token())
	var workers sync.WaitGroup
	for i := 0; i < 2; i++ {
		workers.Add(1)
		go func() {
			defer workers.Done()
			write(hold.Context(), hold, name, journal)
		}()
	}
	workers.Wait()
	return hold.Unlock()
}

func run(name, path string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	journal, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer journal.Close()
	client, err := holdfast.Connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	for ctx.Err() == nil {
		err := shift(ctx, client, name, journal)
		switch {
		case errors.Is(err, holdfast.ErrLost):
			// another one may work now: this one gets in line again
			fmt.Printf("%s does not work any more: %v\n", name, err)
		case err != nil && ctx.Err() == nil:
			return err
		}
	}
	return nil
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: shift NAME JOURNAL")
		os.Exit(64)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
