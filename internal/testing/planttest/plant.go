package planttest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

const (
	Length     = 20                     // samples of a prediction of the plant's model
	Partitions = 8                      // of its job
	Quiet      = 2 * time.Minute        // without any progress: it hangs
	Restarting = 300 * time.Millisecond // until a killed program begins again
)

// Plant is a NATS server, a stage and what feeds it, each a program of its own that
// can be killed.
type Plant struct {
	T          *testing.T
	Dir, Model string
	URL, Port  string // of the NATS server
	JS         jetstream.JetStream
	Services   map[string]*Service // "nats", "stage", and what a test starts
}

// Empty is a folder, and an address for a server. Everything is in dir; empty: a
// directory that is removed after the test.
func Empty(t *testing.T, dir string) *Plant {
	t.Helper()
	if dir == "" {
		dir = t.TempDir()
	}
	p := &Plant{T: t, Dir: dir, Model: filepath.Join(dir, "model"), Services: map[string]*Service{}, Port: FreePort(t)}
	p.URL = "nats://127.0.0.1:" + p.Port
	t.Cleanup(p.logs)
	return p
}

// logs shows the end of what each program says, if the test has failed.
func (p *Plant) logs() {
	if !p.T.Failed() {
		return
	}
	for name, s := range p.Services {
		if b, err := os.ReadFile(s.Log); err == nil {
			p.T.Logf("%s ends with\n%s", name, b[max(0, len(b)-4000):])
		}
	}
}

// Idle is a plant with its model, in which nothing runs.
func Idle(t *testing.T, dir string) *Plant {
	t.Helper()
	p := Empty(t, dir)
	archive := filepath.Join(p.Dir, "archive")
	clitest.Must(t, "offline", "import", clitest.TinyData(t, "Tiny", 2, 24, 40), "--out", archive)
	clitest.Must(t, "offline", "retrain", "--archive", archive, "--out", p.Model, "--bank", "euler", "--members", "1", "--units", "5", "--policy", "count", "--length", fmt.Sprint(Length))
	return p
}

// New is a plant whose server and stage run.
func New(t *testing.T, dir string) *Plant {
	t.Helper()
	p := Idle(t, dir)
	p.Serve()
	p.Await("the job's input", func() bool {
		_, err := p.Input()
		return err == nil
	})
	return p
}

// Serve starts server and stage.
func (p *Plant) Serve() {
	p.T.Helper()
	p.StartServer()
	p.Program("stage", "run", "--model", p.Model, "--nats-url", p.URL, "--partitions", fmt.Sprint(Partitions))
}

// StartServer starts the server, and connects to it.
func (p *Plant) StartServer() {
	p.T.Helper()
	p.start("nats", asServer, os.Args[0], filepath.Join(p.Dir, "nats"), p.Port)
	p.Connect()
}

// Connect waits for a server on the plant's port, and connects to it.
func (p *Plant) Connect() {
	p.T.Helper()
	p.Listens(p.Port)
	var nc *nats.Conn
	var err error
	p.Await("a connection to the server", func() bool { // one that comes as the server begins may be reset
		nc, err = natsclient.Connect(natsclient.Options{URL: p.URL})
		return err == nil
	})
	p.T.Cleanup(nc.Close)
	if p.JS, err = jetstream.New(nc); err != nil {
		p.T.Fatal(err)
	}
}

// Program keeps our own program running.
func (p *Plant) Program(name string, args ...string) {
	p.start(name, asProgram, append([]string{os.Args[0]}, args...)...)
}

// Start keeps another program running.
func (p *Plant) Start(name, path string, args ...string) {
	p.start(name, "", append([]string{path}, args...)...)
}

// start keeps a program running; as is what this test binary is then (Main).
func (p *Plant) start(name, as string, args ...string) {
	s := &Service{args: args, env: append(os.Environ(), variable+"="+as), Log: filepath.Join(p.Dir, name+".log"), done: make(chan struct{})}
	p.Services[name] = s
	go s.keep()
	p.T.Cleanup(s.End)
}

// Says reports whether a program's messages have a text.
func (p *Plant) Says(name, text string) bool {
	b, err := os.ReadFile(p.Services[name].Log)
	return err == nil && strings.Contains(string(b), text)
}

// Listens returns when something listens on a port of this machine.
func (p *Plant) Listens(port string) {
	p.T.Helper()
	p.Await("port "+port, func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// Await returns when ok says so.
func (p *Plant) Await(what string, ok func() bool) {
	p.T.Helper()
	for end := time.Now().Add(Quiet); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			p.T.Fatalf("%s: not within %v", what, Quiet)
		}
	}
}

// Input is what the server says of the job's input.
func (p *Plant) Input() (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(p.T.Context(), 5*time.Second)
	defer cancel()
	in, err := p.JS.Stream(ctx, "EUSN-IN")
	if err != nil {
		return nil, err
	}
	return in.CachedInfo(), nil
}

// Record is what the last message of a partition says.
type Record struct {
	Digest, At string // of the state, after which input message
	Outs       int    // predictions
}

// Records are those of a job's partitions; fewer where the server does not answer.
func (p *Plant) Records(job string) (all []Record) {
	ctx, cancel := context.WithTimeout(p.T.Context(), 5*time.Second)
	defer cancel()
	out, err := p.JS.Stream(ctx, strings.ToUpper(job)+"-OUT")
	for part := 0; part < Partitions && err == nil; part++ {
		var m *jetstream.RawStreamMsg
		if m, err = out.GetLastMsgForSubject(ctx, fmt.Sprintf("%s.out.%d", job, part)); err == nil {
			outs, _ := strconv.Atoi(m.Header.Get("Eusn-Outs"))
			all = append(all, Record{m.Header.Get("Eusn-Digest"), m.Header.Get("Eusn-Digest-In-Seq"), outs})
		}
	}
	return all
}

// Made is how many predictions a job has made.
func (p *Plant) Made(job string) (n int) {
	for _, r := range p.Records(job) {
		n += r.Outs
	}
	return n
}
