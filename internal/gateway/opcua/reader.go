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

// Memory limits of a reader process: the garbage collector's soft limit, and the size at which
// the process ends.
const (
	softMemoryLimit = 96 << 20
	hardMemoryLimit = 256 << 20
)

// init turns a program started as processName into a reader process, before the main function
// runs: the gateway, and the test binary of each package that imports this package.
func init() {
	if len(os.Args) == 1 && os.Args[0] == processName {
		runReader(os.Stdin, os.Stdout)
		os.Exit(0)
	}
}

// runReader runs one session with a server, or browses the server, and writes reports.
func runReader(stdin io.Reader, stdout io.Writer) {
	signal.Ignore(os.Interrupt, syscall.SIGTERM) // the gateway ends this process
	debug.SetMemoryLimit(softMemoryLimit)
	go limitMemory()
	in := bufio.NewReader(stdin)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return
	}
	enc := gob.NewEncoder(stdout)
	fail := func(err error) { _ = enc.Encode(report{Failed: err.Error()}) }
	var r request
	if err := json.Unmarshal(line, &r); err != nil {
		fail(err)
		return
	}
	open := func(o Options) (*Client, error) { return newClient(nil, o) }
	if r.Browse {
		open = newConnection
	}
	c, err := open(r.Options)
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
	if r.Browse {
		space, err := c.browseSession(ctx, r.Object)
		if err != nil {
			fail(c.addAdvice(err))
			return
		}
		_ = enc.Encode(report{Space: space})
		return
	}
	err = c.readSession(ctx, func(r report) error { return enc.Encode(r) })
	fail(c.addAdvice(err))
}

// limitMemory ends the process when it uses too much memory: a server's message can make the
// library allocate any size.
func limitMemory() {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	for range time.Tick(50 * time.Millisecond) {
		metrics.Read(s)
		if used := s[0].Value.Uint64() - s[1].Value.Uint64(); used > hardMemoryLimit {
			fmt.Fprintf(os.Stderr, "fatal error: the process has %d MiB of memory, at most %d are allowed\n", used>>20, hardMemoryLimit>>20)
			os.Exit(2)
		}
	}
}
