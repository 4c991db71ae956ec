// Command picture draws docs/picture.svg: three sensors of a simulated machine, and the
// stage's predictions for them, from a real run of eusn-stream.
//
//	make picture
//
// It runs the program to simulate machines and train a model on them (demo), lets the
// stage classify a machine outside the training (run, replay), kills the worker in the
// middle and restarts it. The same program gives the same bytes each time, so a test
// redraws the picture and compares.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	program := flag.String("program", "./eusn-stream", "path of the built program")
	out := flag.String("out", "docs/picture.svg", "file to write")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	picture, err := paint(ctx, *program)
	if err == nil {
		err = os.WriteFile(*out, picture, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

// paint runs the program in a separate folder and draws the result.
func paint(ctx context.Context, program string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "picture-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	m, err := newMachine(ctx)
	if err != nil {
		return nil, err
	}
	if err := m.runMachine(ctx, program, dir); err != nil {
		return nil, err
	}
	return m.draw(), nil
}
