package opcua

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// processName is the name that a reader process has as its argument 0.
const processName = "eusn-stream-opcua"

// A reader process that is asked to end has endWait for it.
const endWait = 3 * time.Second

// request is what a reader process gets on its standard input, as JSON. The end of
// the input ends the process.
type request struct {
	Options Options
	Wait    time.Duration // for an answer
}

// report is what a reader process writes, by gob: one of its fields.
type report struct {
	Subscribed *grant
	Values     []reading
	Failed     string // the session has ended
}

// reading is a value as the server has sent it.
type reading struct {
	Item   int
	At     int64 // ns since 1970, if Timed
	Timed  bool
	Status uint32
	Null   bool
	Type   string
	X      any // a number, a text or a bool; nil: anything else
}

// process is a reader process as its parent sees it.
type process struct {
	cmd    *exec.Cmd
	in     io.Closer
	out    io.Reader
	dec    *gob.Decoder
	errors head
	close  func() // asks it to end, and kills it after endWait
}

// startProcess runs this program again, as a reader process.
func startProcess(r request) (*process, error) {
	path := "/proc/self/exe" // the program that runs, even after its file was replaced
	if _, err := os.Stat(path); err != nil {
		if path, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	ask, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: &exec.Cmd{Path: path, Args: []string{processName}, Env: []string{}}}
	p.cmd.Stderr = &p.errors
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in, p.out, p.dec = in, out, gob.NewDecoder(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.close = sync.OnceFunc(func() {
		in.Close()
		time.AfterFunc(endWait, func() { p.cmd.Process.Kill() })
	})
	if _, err := in.Write(append(ask, '\n')); err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

// next returns what the process reports next.
func (p *process) next() (*report, error) {
	r := new(report)
	err := p.dec.Decode(r)
	if err == nil {
		return r, nil
	}
	p.end()
	if text := p.errors.reason(); text != "" {
		return nil, fmt.Errorf("the process that reads the server has ended (%s): the server, or whoever is between, sends what is no OPC UA, or more than can be kept", text)
	}
	if errors.Is(err, io.EOF) {
		err = errors.New(p.cmd.ProcessState.String())
	}
	return nil, fmt.Errorf("the process that reads the server has ended: %w", err)
}

// end ends the process, and waits for it.
func (p *process) end() {
	p.close()
	_, _ = io.Copy(io.Discard, p.out)
	_ = p.cmd.Wait()
}

// head keeps the beginning of what is written.
type head struct{ b []byte }

func (h *head) Write(b []byte) (int, error) {
	h.b = append(h.b, b[:min(len(b), 4096-len(h.b))]...)
	return len(b), nil
}

// reason is the line that says why a Go program has ended.
func (h *head) reason() string {
	for line := range bytes.Lines(h.b) {
		text := strings.TrimSpace(string(line))
		if strings.HasPrefix(text, "panic: ") || strings.HasPrefix(text, "fatal error: ") {
			return text
		}
	}
	return ""
}
