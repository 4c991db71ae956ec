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

// rivalWithin is how long a worker may take until it is refused.
const rivalWithin = 15 * time.Second

// followerFor is how long a worker with another readout works.
const followerFor = 5 * time.Second

// rival starts a worker of the same job with another network, and expects that it
// ends with a reason. The comparison shows that it changed nothing.
func rival(at float64, other func() (*reservoir.Model, error)) harm {
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
				r.result.fail("a %s worked for %v", what, rivalWithin)
			}
			return nil
		}
		text, err := os.ReadFile(log)
		if why := refusal(text); p.how() == endedWell || why == "" {
			return fmt.Errorf("it ended with %s and the reason %q (%v)", p.how(), why, err)
		}
		return err
	}}
}

// follower starts a worker of the same job with another readout of its network for a
// while, and expects that it predicts with the job's model. The comparison shows that
// its predictions are those of the job.
func follower(at float64, other func() (*reservoir.Model, error)) harm {
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
		if p.how() != endedWell || r.scenario.control() == "" && !strings.Contains(string(text), "takes the job's model from its registry") {
			return fmt.Errorf("it ended with %s, and the log does not report that it takes the job's model", p.how())
		}
		return nil
	}}
}

// startWith starts a worker with another model. It returns its process and log file.
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
	promotion      = "promotion"      // the kind of a harm that is none: another readout answers from now on
	promotedUntil  = 0.9              // of the load
	promotedWithin = 30 * time.Second // by when a promotion is in the job's entry, and, with all workers there, in every partition
)

// shownNothing is the end of why a run failed that has met none of what it is for.
const shownNothing = "the run has lost its subject"

// promotions are so many promotions and rollbacks, each at a random moment of its part
// of the load (schedule).
func promotions(n int) (all []harm) {
	for i := range n {
		all = append(all, harm{promotion, promotedUntil * float64(i) / float64(n), func(ctx context.Context, r *run, js jetstream.JetStream) error {
			return r.promote(ctx, js, r.rng(fmt.Sprint(i, promotion)))
		}})
	}
	return all
}

// model runs a command of the program that works with the job's models.
func (r *run) model(name string, args ...string) (*proc, error) {
	args = append([]string{r.worker, "model"}, args...)
	return r.procs.start(name, nil, append(args, "--job", job, "--nats-url", r.cluster.url(), "--who", "chaos")...)
}

// publishReadouts stores the readouts of a run with promotions in the job's registry.
func (r *run) publishReadouts(ctx context.Context, js jetstream.JetStream) error {
	if r.scenario.harms(promotion) == 0 {
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
		err := asking(ctx, func(context.Context) error { // until the first worker has begun the job
			if late := ctx.Err(); late != nil {
				return late
			}
			os.Remove(filepath.Join(r.dir, name+".log"))
			p, err := r.model(name, "publish", file)
			if err != nil {
				return err
			}
			<-p.done
			text, err := os.ReadFile(filepath.Join(r.dir, name+".log"))
			lines := strings.Fields(string(text))
			if err != nil || p.how() != endedWell || len(lines) == 0 {
				return fmt.Errorf("chaos: model publish ended with %s: %s (%v)", p.how(), text, err)
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

// promote has another readout answer: one of the registry, or that of before. The
// command waits for the partitions; the run does not.
func (r *run) promote(ctx context.Context, js jetstream.JetStream, rng *rand.Rand) error {
	ctx, cancel := context.WithTimeout(ctx, promotedWithin)
	defer cancel()
	before, err := promotionOf(ctx, js)
	if err != nil {
		return err
	}
	for choice := rng.IntN(jobReadouts); ctx.Err() == nil; choice++ { // one that answers already is refused
		args := []string{"rollback"} // also to the job's first one
		if which := choice % jobReadouts; which > 0 {
			args = []string{"promote", r.truth.readouts.names[which]}
		}
		if rng.IntN(3) == 0 {
			args = append(args, "--now")
		}
		p, err := r.model(fmt.Sprint("promotion-", before+1), args...)
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
			refused = p.ended() && p.how() != endedWell
			if now, err := promotionOf(ctx, js); err != nil || now > before {
				return err
			}
		}
	}
	return fmt.Errorf("promotion %d is not in the job's entry after %v; promotion-%[1]d.log says why", before+1, promotedWithin)
}

// promotionOf is the number of the job's newest promotion.
func promotionOf(ctx context.Context, js jetstream.JetStream) (number uint64, err error) {
	var entry *jetstream.RawStreamMsg
	err = asking(ctx, func(ctx context.Context) error {
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
// expects that several readouts have answered.
func (r *run) promotionsTaken(ctx context.Context, js jetstream.JetStream) error {
	if r.scenario.harms(promotion) == 0 {
		return nil
	}
	newest, err := promotionOf(ctx, js)
	if err != nil {
		return err
	}
	var late []int
	for begin := time.Now(); time.Since(begin) < promotedWithin; time.Sleep(200 * time.Millisecond) {
		if r.inputRead, err = readOn(ctx, js, inputStream, r.inputRead, false, r.input); err != nil {
			return err
		}
		late = nil
		for p := range r.scenario.Partitions {
			if r.truth.readouts.now[p].number < newest {
				late = append(late, p)
			}
		}
		if late == nil {
			break
		}
	}
	if late != nil {
		r.result.fail("promotion %d is not in partitions %v %v after the load", newest, late, promotedWithin)
	}
	if len(r.truth.readouts.used) < 2 {
		r.result.fail("predictions by readout: %v, want some of two or more: %s", r.truth.readouts.used, shownNothing)
	}
	return nil
}
