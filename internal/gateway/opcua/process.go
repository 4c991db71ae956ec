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

// processName is argument 0 of a reader process.
const processName = "eusn-stream-opcua"

// endWait is the time between asking a reader process to end and killing the process.
const endWait = 3 * time.Second

// request is the standard input of a reader process, as JSON. The process ends when its input
// is closed.
type request struct {
	Options Options
	Wait    time.Duration // timeout of one request
	Browse  bool          // browse the server instead of reading values
	Object  []string      // names of the first object
}

// report is one message of a reader process, in gob. Exactly one field is set.
type report struct {
	Subscribed *grant
	Values     []reading
	Space      *Space
	Failed     string // error that ended the session
}

// reading is one value from the server.
type reading struct {
	Item   int
	At     int64 // ns since 1970, if Timed
	Timed  bool
	Status uint32
	Null   bool
	Type   string
	X      any // a number, text or bool; nil for other types
}

// process is a reader process, seen from its parent.
type process struct {
	cmd    *exec.Cmd
	input  io.Closer
	output io.Reader
	dec    *gob.Decoder
	errors head
	close  func() // asks the process to end, and kills it after endWait
}

// startProcess starts this program as a reader process.
func startProcess(r request) (*process, error) {
	path := "/proc/self/exe" // the running program, even if its file was replaced
	if _, err := os.Stat(path); err != nil {
		if path, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	line, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: &exec.Cmd{Path: path, Args: []string{processName}, Env: []string{}}}
	p.cmd.Stderr = &p.errors
	input, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.input, p.output, p.dec = input, output, gob.NewDecoder(output)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.close = sync.OnceFunc(func() {
		input.Close()
		time.AfterFunc(endWait, func() { p.cmd.Process.Kill() })
	})
	if _, err := input.Write(append(line, '\n')); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// readReport returns the next report of the process.
func (p *process) readReport() (*report, error) {
	r := new(report)
	err := p.dec.Decode(r)
	if err == nil {
		return r, nil
	}
	p.stop()
	if text := p.errors.crashReason(); text != "" {
		return nil, fmt.Errorf("the process that reads the server has ended (%s): the server, or an attacker in the network, sends invalid OPC UA, or more than the memory limit allows", text)
	}
	if errors.Is(err, io.EOF) {
		err = errors.New(p.cmd.ProcessState.String())
	}
	return nil, fmt.Errorf("the process that reads the server has ended: %w", err)
}

// stop ends the process and waits for it.
func (p *process) stop() {
	p.close()
	_, _ = io.Copy(io.Discard, p.output)
	_ = p.cmd.Wait()
}

// head keeps the first 4,096 bytes of a process's errors.
type head struct{ b []byte }

func (h *head) Write(b []byte) (int, error) {
	h.b = append(h.b, b[:min(len(b), 4096-len(h.b))]...)
	return len(b), nil
}

// crashReason returns the line with the reason why a Go program crashed.
func (h *head) crashReason() string {
	for line := range bytes.Lines(h.b) {
		text := strings.TrimSpace(string(line))
		if strings.HasPrefix(text, "panic: ") || strings.HasPrefix(text, "fatal error: ") {
			return text
		}
	}
	return ""
}
