package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// prediction is a line of "eusn-stream run --json".
type prediction struct {
	Seq       uint64 `json:"seq"`
	Row       uint32 `json:"row"`
	Class     string `json:"class"`
	Integrity string `json:"integrity"`
	Flags     string `json:"flags"`
}

// end returns the number of samples that the machine had sent at the end of the sequence:
// messages count from 1, rows from 0.
func (p prediction) end() int { return int(p.Seq-1)*hop + int(p.Row) + 1 }

// runMachine trains a model on other machines, and lets the stage classify this machine.
func (m *shownMachine) runMachine(ctx context.Context, program, dir string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Minute, errors.New("the program has not ended after 5 minutes"))
	defer cancel()
	program, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	call := func(args ...string) error { return wait(exec.CommandContext(ctx, program, args...)) }
	if err := call("demo", "--bank", "standard", "--policy", "window", "--continuous", "--test-series", "40", "--dir", dir); err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	health, err := freePort()
	if err != nil {
		return err
	}
	stage := []string{"run", "--model", filepath.Join(dir, "plant-train.safetensors"), "--dir", filepath.Join(dir, "nats"),
		"--port", port, "--metrics-listen", "127.0.0.1:" + health, "--partitions", "1", "--non-finite", "hold", "--json"}
	for _, part := range []int{killed, m.samples()} {
		archive, err := m.record(dir, part)
		if err != nil {
			return err
		}
		err = m.watchStage(exec.CommandContext(ctx, program, stage...), part, func() error {
			return call("replay", archive, "--rows", strconv.Itoa(hop), "--resume", "--nats-url", "nats://127.0.0.1:"+port)
		}, "http://127.0.0.1:"+health+"/readyz")
		if err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
	}
	return nil
}

// watchStage starts the stage, publishes samples, reads the predictions of all samples up
// to part, and kills the stage.
func (m *shownMachine) watchStage(stage *exec.Cmd, part int, publish func() error, readyz string) error {
	var output bytes.Buffer
	stage.Stderr = &output
	out, err := stage.StdoutPipe()
	if err != nil {
		return err
	}
	if err := stage.Start(); err != nil {
		return err
	}
	defer func() { stage.Process.Kill(); stage.Wait() }() // kill -9, as far as the system supports it
	if err := awaitReady(readyz); err != nil {
		return fmt.Errorf("%w\n%s", err, output.Bytes())
	}
	if err := publish(); err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var p prediction
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			return fmt.Errorf("%s: %w", lines.Bytes(), err)
		}
		m.predictions = append(m.predictions, p)
		if p.end() == part {
			return nil
		}
	}
	return fmt.Errorf("the stage ended: %w\n%s", lines.Err(), output.Bytes())
}

func wait(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
	}
	return nil
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// awaitReady waits until the stage has its partition and reads.
func awaitReady(readyz string) error {
	last := errors.New("it was not asked")
	for range 600 {
		answer, err := http.Get(readyz)
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(answer.Status)
		}
		last = err
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("the stage is not ready: %w", last)
}
