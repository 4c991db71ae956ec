//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// rivalWithin is how long a worker may take until it is refused.
const rivalWithin = 15 * time.Second

// rival starts a worker of the same job with another model, and expects that it
// ends with a reason. The comparison shows that it changed nothing.
func rival(at float64, what string, other func() (*reservoir.Model, error)) harm {
	what = "worker with another " + what
	return harm{what, at, func(ctx context.Context, r *run, js jetstream.JetStream) error {
		m, err := other()
		if err != nil {
			return err
		}
		name := "rival-" + strings.ReplaceAll(what, " ", "-")
		model := filepath.Join(r.dir, name+".safetensors")
		if err := m.Save(model); err != nil {
			return err
		}
		args := slices.Clone(r.fleet.args)
		args[slices.Index(args, "--model")+1] = model
		p, err := r.procs.start(name, r.fleet.env, append(args, "--nats-url", r.cluster.url())...)
		if err != nil {
			return err
		}
		select {
		case <-p.done:
		case <-time.After(rivalWithin):
			p.stop(workerStop)
			if r.scenario.control() == "" {
				r.result.fail("a %s worked for %v", what, rivalWithin)
			}
			return nil
		}
		text, err := os.ReadFile(filepath.Join(r.dir, name+".log"))
		if why := refusal(text); p.how() == endedWell || why == "" {
			return fmt.Errorf("it ended with %s and the reason %q (%v)", p.how(), why, err)
		}
		return err
	}}
}
