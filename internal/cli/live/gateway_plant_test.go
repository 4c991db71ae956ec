package live_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/pipeline/natsclient"
	"github.com/eusn-stream/eusn-stream/pipeline/natsserver"
)

// plant is a NATS server, a stage, a gateway and what feeds it, each a program of
// its own that can be killed.
type plant struct {
	t          *testing.T
	dir, model string
	url, port  string // of the NATS server
	js         jetstream.JetStream
	services   map[string]*service
}

// service is a program that is started again whenever it ends.
type service struct {
	args []string
	env  []string
	log  string

	mu   sync.Mutex
	cmd  *exec.Cmd
	held bool // not started until it is released
	over bool
	done chan struct{}
}

const restarting = 300 * time.Millisecond

// newPlant starts server and stage.
func newPlant(t *testing.T, dir string) *plant {
	t.Helper()
	p := newPlantIn(t, dir)
	p.serve()
	nc, err := natsclient.Connect(natsclient.Options{URL: p.url})
	if err == nil {
		t.Cleanup(nc.Close)
		p.js, err = jetstream.New(nc)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.await("the job's input", func() bool {
		_, err := p.input()
		return err == nil
	})
	return p
}

// newPlantIn makes the model. Everything is in dir; empty: a directory that is removed
// after the test.
func newPlantIn(t *testing.T, dir string) *plant {
	t.Helper()
	if dir == "" {
		dir = t.TempDir()
	}
	p := &plant{t: t, dir: dir, model: filepath.Join(dir, "model"), services: map[string]*service{}}
	clitest.Must(t, "offline", "import", clitest.TinyData(t, "Tiny", 2, 24, 40), "--out", filepath.Join(dir, "archive"))
	clitest.Must(t, "offline", "retrain", "--archive", filepath.Join(dir, "archive"), "--out", p.model, "--bank", "v1", "--members", "1", "--units", "5", "--policy", "count", "--length", fmt.Sprint(runLength))
	p.port = freePort(t)
	p.url = "nats://127.0.0.1:" + p.port
	return p
}

// serve starts server and stage.
func (p *plant) serve() {
	p.t.Helper()
	p.start("nats", "nats", os.Args[0], filepath.Join(p.dir, "nats"), p.port)
	p.listens(p.port)
	p.start("stage", "1", os.Args[0], "run", "--model", p.model, "--nats-url", p.url, "--partitions", "8")
}

// gateway starts the gateway, with how devices reach it.
func (p *plant) gateway(args ...string) {
	p.t.Helper()
	p.startGateway(args...)
	p.await("the gateway", func() bool { return p.says("gateway", "publishing to") })
}

func (p *plant) startGateway(args ...string) {
	p.start("gateway", "1", append([]string{os.Args[0], "gateway", "--model", p.model, "--nats-url", p.url,
		"--outbox", filepath.Join(p.dir, "outbox"), "--topics", "plant/+/sensor/+"}, args...)...)
}

// mosquitto starts the broker with the settings that docs/gateway.md advises.
func (p *plant) mosquitto(path, port string) {
	p.t.Helper()
	conf := clitest.Write(p.t, filepath.Join(p.dir, "mosquitto.conf"), fmt.Sprintf(`listener %s 127.0.0.1
allow_anonymous true
user root
max_queued_messages 0
max_inflight_messages 1000
persistence true
persistence_location %s/
autosave_interval 0
`, port, p.dir))
	p.start("mosquitto", "", path, "-c", conf)
	p.listens(port)
}

// saved lets mosquitto write what it has to its disk.
func (p *plant) saved() {
	p.t.Helper()
	db := filepath.Join(p.dir, "mosquitto.db")
	os.Remove(db)
	if err := p.services["mosquitto"].save(); err != nil {
		p.t.Fatal(err)
	}
	p.await("what mosquitto saves", func() bool {
		_, err := os.Stat(db)
		return err == nil
	})
}

// says reports whether a program's messages have a text.
func (p *plant) says(name, text string) bool {
	b, err := os.ReadFile(p.services[name].log)
	return err == nil && strings.Contains(string(b), text)
}

func (p *plant) listens(port string) {
	p.t.Helper()
	p.await("port "+port, func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// await returns when ok says so.
func (p *plant) await(what string, ok func() bool) {
	p.t.Helper()
	for end := time.Now().Add(runQuiet); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("%s: not within %v; the logs are in %s", what, runQuiet, p.dir)
		}
	}
}

func (p *plant) input() (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), 5*time.Second)
	defer cancel()
	in, err := p.js.Stream(ctx, "EUSN-IN")
	if err != nil {
		return nil, err
	}
	return in.CachedInfo(), nil
}

// still returns when no more messages come into the input.
func (p *plant) still() {
	p.t.Helper()
	for last, since := uint64(0), time.Now(); time.Since(since) < time.Second; time.Sleep(50 * time.Millisecond) {
		info, err := p.input()
		if err != nil || info.State.LastSeq != last {
			since = time.Now()
		}
		if err == nil {
			last = info.State.LastSeq
		}
	}
}

// full says whether the job's input takes no more messages.
func (p *plant) full(yes bool) {
	p.t.Helper()
	p.await("the limit of the input", func() bool {
		info, err := p.input()
		if err != nil {
			return false
		}
		c := info.Config
		c.MaxMsgs, c.Discard = -1, jetstream.DiscardNew
		if yes {
			c.MaxMsgs = max(1, int64(info.State.Msgs))
		}
		ctx, cancel := context.WithTimeout(p.t.Context(), 5*time.Second)
		defer cancel()
		_, err = p.js.UpdateStream(ctx, c)
		return err == nil
	})
}

// start keeps a program running; as is what this test binary is then (TestMain).
func (p *plant) start(name, as string, args ...string) {
	s := &service{args: args, env: append(os.Environ(), asProgram+"="+as), log: filepath.Join(p.dir, name+".log"), done: make(chan struct{})}
	p.services[name] = s
	go s.keep()
	p.t.Cleanup(s.end)
}

func (s *service) keep() {
	defer close(s.done)
	for {
		cmd, over := s.begin()
		if over {
			return
		}
		if cmd != nil {
			cmd.Wait()
		}
		time.Sleep(restarting)
	}
}

func (s *service) begin() (cmd *exec.Cmd, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmd = nil
	if s.over || s.held {
		return nil, s.over
	}
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, false
	}
	defer log.Close() // the child has its own copy
	cmd = exec.Command(s.args[0], s.args[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = s.env, log, log
	if cmd.Start() != nil {
		return nil, false
	}
	s.cmd = cmd
	return cmd, false
}

// save tells mosquitto to write what it has to its disk.
func (s *service) save() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return errors.New("mosquitto does not run")
	}
	return exec.Command("kill", "-USR1", strconv.Itoa(s.cmd.Process.Pid)).Run()
}

// kill ends the program as kill -9 does. It begins again by itself or, if it is
// held, when it is released.
func (s *service) kill(held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = held
	if s.cmd != nil {
		s.cmd.Process.Kill()
	}
}

func (s *service) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = false
}

func (s *service) end() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.kill(true)
	<-s.done
}

// freePort is a port that nobody uses now.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// natsProcess is a NATS server until it is killed.
func natsProcess(args []string) error {
	if len(args) != 2 {
		return errors.New("want a directory and a port")
	}
	port, err := strconv.Atoi(args[1])
	if err == nil {
		_, err = natsserver.Start(natsserver.Options{Dir: args[0], Port: port})
	}
	if err != nil {
		return err
	}
	select {}
}
