package opcua

import (
	"bufio"
	"context"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"runtime/metrics"
	"syscall"
	"time"
)

// A reader process has these limits. Above mostMemory it ends.
const (
	softMemory = 96 << 20
	mostMemory = 256 << 20
)

// A program with this package that is started under processName is a reader process,
// before it is anything else: the gateway, and the test of any package that has one.
func init() {
	if len(os.Args) == 1 && os.Args[0] == processName {
		runReader(os.Stdin, os.Stdout)
		os.Exit(0)
	}
}

// runReader makes one session with a server and reports what it reads.
func runReader(stdin io.Reader, stdout io.Writer) {
	signal.Ignore(os.Interrupt, syscall.SIGTERM) // the gateway ends it
	debug.SetMemoryLimit(softMemory)
	go limitMemory()
	in := bufio.NewReader(stdin)
	ask, err := in.ReadBytes('\n')
	if err != nil {
		return
	}
	enc := gob.NewEncoder(stdout)
	fail := func(err error) { _ = enc.Encode(report{Failed: err.Error()}) }
	var r request
	if err := json.Unmarshal(ask, &r); err != nil {
		fail(err)
		return
	}
	c, err := newClient(nil, r.Options)
	if err != nil {
		fail(err)
		return
	}
	c.wait = r.Wait
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	err = c.session(ctx, func(r report) error { return enc.Encode(r) })
	fail(c.explain(err))
}

// limitMemory ends a process that takes too much memory. What a server sends can make
// the library take any amount.
func limitMemory() {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	for range time.Tick(50 * time.Millisecond) {
		metrics.Read(s)
		if taken := s[0].Value.Uint64() - s[1].Value.Uint64(); taken > mostMemory {
			fmt.Fprintf(os.Stderr, "fatal error: the process has %d MiB of memory, at most %d are allowed\n", taken>>20, mostMemory>>20)
			os.Exit(2)
		}
	}
}
