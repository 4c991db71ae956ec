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
	Length     = 20                     // samples per prediction of the plant's model
	Partitions = 8                      // of the plant's job
	Quiet      = 2 * time.Minute        // without any progress: the test hangs
	Restarting = 300 * time.Millisecond // delay before a killed program restarts
)

// Plant is a NATS server, a stage and the stage's producers, each in a separate process.
type Plant struct {
	T          *testing.T
	Dir, Model string
	URL, Port  string // of the NATS server
	JS         jetstream.JetStream
	Services   map[string]*Service // "nats", "stage", and the services that a test starts
}

// NewEmpty returns a plant with a folder and an address for a server, in which nothing
// runs. All files lie in dir, or in a temporary directory if dir is empty.
func NewEmpty(t *testing.T, dir string) *Plant {
	t.Helper()
	if dir == "" {
		dir = t.TempDir()
	}
	p := &Plant{T: t, Dir: dir, Model: filepath.Join(dir, "model"), Services: map[string]*Service{}, Port: FreePort(t)}
	p.URL = "nats://127.0.0.1:" + p.Port
	t.Cleanup(p.logMessages)
	return p
}

// logMessages logs the last messages of each program if the test has failed.
func (p *Plant) logMessages() {
	if !p.T.Failed() {
		return
	}
	for name, s := range p.Services {
		if b, err := os.ReadFile(s.Log); err == nil {
			p.T.Logf("%s ends with\n%s", name, b[max(0, len(b)-4000):])
		}
	}
}

// NewIdle returns a plant with a model, in which nothing runs.
func NewIdle(t *testing.T, dir string) *Plant {
	t.Helper()
	p := NewEmpty(t, dir)
	archive := filepath.Join(p.Dir, "archive")
	clitest.Must(t, "import", clitest.TinyData(t, "Tiny", 2, 24, 40), "--output", archive)
	clitest.Must(t, "train", archive, "--output", p.Model, "--bank", "euler", "--members", "1", "--units", "5", "--policy", "count", "--length", fmt.Sprint(Length))
	return p
}

// New returns a plant with a running server and stage.
func New(t *testing.T, dir string) *Plant {
	t.Helper()
	p := NewIdle(t, dir)
	p.StartStage()
	p.Await("the job's input", func() bool {
		_, err := p.InputInfo()
		return err == nil
	})
	return p
}

// StartStage starts the server and the stage.
func (p *Plant) StartStage() {
	p.T.Helper()
	p.StartServer()
	p.KeepProgram("stage", "run", "--model", p.Model, "--nats-url", p.URL, "--partitions", fmt.Sprint(Partitions))
}

// StartServer starts the server and connects to it.
func (p *Plant) StartServer() {
	p.T.Helper()
	p.keepService("nats", asServer, os.Args[0], filepath.Join(p.Dir, "nats"), p.Port)
	p.Connect()
}

// Connect waits for a server on the plant's port and connects to it.
func (p *Plant) Connect() {
	p.T.Helper()
	p.AwaitPort(p.Port)
	var nc *nats.Conn
	var err error
	p.Await("a connection to the server", func() bool { // a connection made while the server starts may be reset
		nc, err = natsclient.Connect(p.T.Context(), natsclient.Options{URL: p.URL})
		return err == nil
	})
	p.T.Cleanup(nc.Close)
	if p.JS, err = jetstream.New(nc); err != nil {
		p.T.Fatal(err)
	}
}

// KeepProgram runs eusn-stream as a service.
func (p *Plant) KeepProgram(name string, args ...string) {
	p.keepService(name, asProgram, append([]string{os.Args[0]}, args...)...)
}

// KeepOther runs another program as a service.
func (p *Plant) KeepOther(name, path string, args ...string) {
	p.keepService(name, "", append([]string{path}, args...)...)
}

// keepService runs a program as a service. role is the part that a test binary plays in
// the new process (Main); empty for other programs.
func (p *Plant) keepService(name, role string, args ...string) {
	s := &Service{args: args, env: append(os.Environ(), variable+"="+role), Log: filepath.Join(p.Dir, name+".log"), done: make(chan struct{})}
	p.Services[name] = s
	go s.keepRunning()
	p.T.Cleanup(s.End)
}

// HasLogged reports whether the messages of a program contain text.
func (p *Plant) HasLogged(name, text string) bool {
	b, err := os.ReadFile(p.Services[name].Log)
	return err == nil && strings.Contains(string(b), text)
}

// AwaitPort returns when a server listens on a local port.
func (p *Plant) AwaitPort(port string) {
	p.T.Helper()
	p.Await("port "+port, func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// Await returns when ok returns true.
func (p *Plant) Await(what string, ok func() bool) {
	p.T.Helper()
	for end := time.Now().Add(Quiet); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			p.T.Fatalf("%s: not within %v", what, Quiet)
		}
	}
}

// InputInfo returns the server's description of the job's input stream.
func (p *Plant) InputInfo() (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(p.T.Context(), 5*time.Second)
	defer cancel()
	in, err := p.JS.Stream(ctx, "EUSN-IN")
	if err != nil {
		return nil, err
	}
	return in.CachedInfo(), nil
}

// Record holds the fields that tests read from the last message of a partition.
type Record struct {
	Digest, At string // hash of the state, and the input message after which it was stored
	Outs       int    // number of predictions
}

// Records returns the last record of each partition of a job; fewer records if the server
// does not answer.
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

// CountPredictions returns the number of a job's predictions.
func (p *Plant) CountPredictions(job string) (n int) {
	for _, r := range p.Records(job) {
		n += r.Outs
	}
	return n
}
