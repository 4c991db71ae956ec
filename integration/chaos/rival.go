//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// rivalWithin is the longest time until a worker is refused.
const rivalWithin = 15 * time.Second

// followerFor is the working time of a worker with another readout.
const followerFor = 5 * time.Second

// rivalHarm starts a worker of the same job with another network, and expects an end with
// a reason. The comparison shows that the worker changed nothing.
func rivalHarm(at float64, other func() (*reservoir.Model, error)) harm {
	const what = "worker with another network"
	return harm{what, at, func(ctx context.Context, r *run, js jetstream.JetStream) error {
		p, log, err := r.startWith(what, other)
		if err != nil {
			return err
		}
		select {
		case <-p.done:
		case <-time.After(rivalWithin):
			p.stop(workerStop)
			if r.scenario.control() == "" {
				r.result.addFailure("a %s worked for %v", what, rivalWithin)
			}
			return nil
		}
		text, err := os.ReadFile(log)
		if why := parseRefusal(text); p.exitStatus() == endedWell || why == "" {
			return fmt.Errorf("the worker ended with %s and the reason %q (%v)", p.exitStatus(), why, err)
		}
		return err
	}}
}

// followerHarm starts a worker of the same job with another readout of its network for a
// while, and expects predictions with the job's model. The comparison shows that the
// predictions are the job's.
func followerHarm(at float64, other func() (*reservoir.Model, error)) harm {
	const what = "worker with another readout"
	return harm{what, at, func(ctx context.Context, r *run, js jetstream.JetStream) error {
		p, log, err := r.startWith(what, other)
		if err != nil {
			return err
		}
		select {
		case <-p.done:
		case <-time.After(followerFor):
			p.stop(workerStop)
		}
		text, err := os.ReadFile(log)
		if err != nil {
			return err
		}
		if p.exitStatus() != endedWell || r.scenario.control() == "" && !strings.Contains(string(text), "takes the job's model from its registry") {
			return fmt.Errorf("the worker ended with %s, and its log does not report the use of the job's model", p.exitStatus())
		}
		return nil
	}}
}

// startWith starts a worker with another model, and returns its process and log file.
func (r *run) startWith(what string, other func() (*reservoir.Model, error)) (p *proc, log string, err error) {
	m, err := other()
	if err != nil {
		return nil, "", err
	}
	name := "rival-" + strings.ReplaceAll(what, " ", "-")
	model := filepath.Join(r.dir, name+".safetensors")
	if err := m.Save(model); err != nil {
		return nil, "", err
	}
	args := slices.Clone(r.fleet.args)
	args[slices.Index(args, "--model")+1] = model
	p, err = r.procs.start(name, r.fleet.env, append(args, "--nats-url", r.cluster.url())...)
	return p, filepath.Join(r.dir, name+".log"), err
}

const (
	promotion      = "promotion"      // the kind of a harm that does no damage: another readout answers from now on
	promotedUntil  = 0.9              // of the load
	promotedWithin = 30 * time.Second // until a promotion is in the job's entry and, with all workers running, in every partition
)

// shownNothing ends the error of a failed run that met none of its intended situations.
const shownNothing = "the run has lost its subject"

// promotionHarms returns n promotions and rollbacks, each at a random moment of its part
// of the load (schedule).
func promotionHarms(n int) (all []harm) {
	for i := range n {
		all = append(all, harm{promotion, promotedUntil * float64(i) / float64(n), func(ctx context.Context, r *run, js jetstream.JetStream) error {
			return r.promote(ctx, js, r.newRand(fmt.Sprint(i, promotion)))
		}})
	}
	return all
}

// startModel runs a command for the job's models.
func (r *run) startModel(name string, args ...string) (*proc, error) {
	args = append([]string{r.worker, "model"}, args...)
	return r.procs.start(name, nil, append(args, "--job", job, "--nats-url", r.cluster.url(), "--who", "chaos")...)
}

// publishReadouts stores the readouts of a run with promotions in the job's registry.
func (r *run) publishReadouts(ctx context.Context) error {
	if r.scenario.countHarms(promotion) == 0 {
		return nil
	}
	for i, linear := range r.truth.model.Readouts {
		m := *r.truth.model
		m.Readouts = m.Readouts[i : i+1]
		name := fmt.Sprint("publish-", i)
		file := filepath.Join(r.dir, name+".safetensors")
		if err := m.Save(file); err != nil {
			return fmt.Errorf("chaos: readout %s: %w", linear.Name, err)
		}
		err := retryRequest(ctx, func(context.Context) error { // until the first worker has created the job
			if late := ctx.Err(); late != nil {
				return late
			}
			os.Remove(filepath.Join(r.dir, name+".log"))
			p, err := r.startModel(name, "publish", file)
			if err != nil {
				return err
			}
			<-p.done
			text, err := os.ReadFile(filepath.Join(r.dir, name+".log"))
			lines := strings.Fields(string(text))
			if err != nil || p.exitStatus() != endedWell || len(lines) == 0 {
				return fmt.Errorf("chaos: model publish ended with %s: %s (%v)", p.exitStatus(), text, err)
			}
			r.truth.readouts.names = append(r.truth.readouts.names, lines[len(lines)-1])
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// promote switches to another readout: one of the registry, or the previous one. The
// command waits for the partitions; the run does not.
func (r *run) promote(ctx context.Context, js jetstream.JetStream, rng *rand.Rand) error {
	ctx, cancel := context.WithTimeout(ctx, promotedWithin)
	defer cancel()
	before, err := promotionOf(ctx, js)
	if err != nil {
		return err
	}
	for choice := rng.IntN(jobReadouts); ctx.Err() == nil; choice++ { // the current readout is refused
		args := []string{"rollback"} // possibly to the job's first readout
		if which := choice % jobReadouts; which > 0 {
			args = []string{"promote", r.truth.readouts.names[which]}
		}
		if rng.IntN(3) == 0 {
			args = append(args, "--now")
		}
		p, err := r.startModel(fmt.Sprint("promotion-", before+1), args...)
		if err != nil {
			return err
		}
		r.fleet.pending.Go(func() {
			select {
			case <-p.done:
			case <-time.After(promotedWithin):
				p.kill()
			}
		})
		for refused := false; !refused && ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
			refused = p.hasEnded() && p.exitStatus() != endedWell
			if now, err := promotionOf(ctx, js); err != nil || now > before {
				return err
			}
		}
	}
	return fmt.Errorf("promotion %d is not in the job's entry after %v; see promotion-%[1]d.log", before+1, promotedWithin)
}

// promotionOf returns the number of the job's newest promotion.
func promotionOf(ctx context.Context, js jetstream.JetStream) (number uint64, err error) {
	var entry *jetstream.RawStreamMsg
	err = retryRequest(ctx, func(ctx context.Context) error {
		s, err := js.Stream(ctx, outputStream)
		if err == nil {
			entry, err = s.GetLastMsgForSubject(ctx, job+".out.job")
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("chaos: the job's entry: %w", err)
	}
	var all []struct{ Number uint64 }
	if text := entry.Header.Get("Eusn-Promotions"); text != "" {
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			return 0, fmt.Errorf("chaos: promotions of the job: %q: %w", text, err)
		}
		number = all[len(all)-1].Number
	}
	return number, nil
}

// promotionsTaken waits until the newest promotion is in each partition's input, and
// expects answers of several readouts.
func (r *run) promotionsTaken(ctx context.Context, js jetstream.JetStream) error {
	if r.scenario.countHarms(promotion) == 0 {
		return nil
	}
	newest, err := promotionOf(ctx, js)
	if err != nil {
		return err
	}
	var late []int
	for begin := time.Now(); time.Since(begin) < promotedWithin; time.Sleep(200 * time.Millisecond) {
		if r.inputRead, err = readOn(ctx, js, inputStream, r.inputRead, false, r.readInput); err != nil {
			return err
		}
		late = nil
		for p := range r.scenario.Partitions {
			if r.truth.readouts.newest[p].number < newest {
				late = append(late, p)
			}
		}
		if late == nil {
			break
		}
	}
	if late != nil {
		r.result.addFailure("promotion %d is not in partitions %v %v after the load", newest, late, promotedWithin)
	}
	if len(r.truth.readouts.used) < 2 {
		r.result.addFailure("predictions by readout: %v, want predictions of at least two readouts: %s", r.truth.readouts.used, shownNothing)
	}
	return nil
}
