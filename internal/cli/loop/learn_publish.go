package loop

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/learn"
	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/registry"
)

// publishedModel is an entry of the registry that learn has made, or found.
type publishedModel struct {
	Fingerprint string `json:"fingerprint"`
	New         bool   `json:"new"` // false: the registry had it
	Parent      string `json:"parent,omitempty"`
	Shadow      bool   `json:"shadow,omitempty"` // set as a shadow
}

// publishModel stores the new model in the job's registry.
func (l *learning) publishModel(ctx context.Context, j learn.JoinResult, f fitted) (*publishedModel, error) {
	r, err := registry.Make(ctx, l.js, l.conf.Job)
	if err != nil {
		return nil, err
	}
	linear, err := l.job.Readout() // of the model that it was made from
	if err != nil {
		return nil, err
	}
	from := registry.Lineage{Who: l.opt.who, When: registry.Now(), Command: l.command, Note: note(j.Report, f.sites)}
	parent, err := registry.Fingerprint(l.model, linear)
	if err != nil {
		return nil, err
	}
	switch _, err := r.FindEntry(ctx, parent); {
	case err == nil:
		from.Parent = parent
	case errors.Is(err, registry.ErrNoEntry):
		l.app.Say("note: the registry does not have %s: the new entry names no parent", l.conf.Model)
	default:
		return nil, err
	}
	name := l.opt.out
	if name == "" {
		name = l.conf.Model
	}
	e, stored, err := r.Publish(ctx, f.model, filepath.Base(name), linear.Name, from)
	if err != nil {
		return nil, err
	}
	switch {
	case stored:
		l.app.Say("published; eusn-stream model promote %s has it predict", e.Fingerprint[:8])
	case e.Retired != nil:
		l.app.Say("warning: the registry has this readout since %s, and %s has retired it; nothing is published", e.When.UTC().Format(time.RFC3339), e.Retired.Who)
	default:
		l.app.Say("nothing has changed: the registry has this readout since %s, from %s; nothing is published", e.When.UTC().Format(time.RFC3339), e.Who)
	}
	p := &publishedModel{Fingerprint: e.Fingerprint, New: stored, Parent: e.Parent}
	if l.opt.shadow {
		err = l.setShadow(ctx, p)
		if err != nil && ctx.Err() == nil && l.opt.follow { // the next attempt may succeed
			l.app.Say("warning: %s is not a shadow: %v", p.Fingerprint, err)
			err = nil
		}
	}
	return p, err
}

// setShadow makes the published readout score next to the active readout, instead of
// learn's previous shadow for the same person.
func (l *learning) setShadow(ctx context.Context, p *publishedModel) error {
	who := registry.Line("learn, "+l.opt.who, 256)
	all, err := operate.ShadowsOf(ctx, l.js, l.conf.Job)
	if err != nil {
		return err
	}
	var before []string
	for _, s := range all {
		if s.Readout == p.Fingerprint {
			p.Shadow = true
			l.app.Say("%s is a shadow already", p.Fingerprint)
			return nil
		}
		if s.Who == who {
			before = append(before, s.Readout)
		}
	}
	if len(all) >= operate.MostShadows && len(before) > 0 { // there must be room
		if err := l.endShadows(ctx, before); err != nil {
			return err
		}
		before = nil
	}
	switch _, err = operate.SetShadow(ctx, l.js, l.conf.Job, operate.Shadow{Readout: p.Fingerprint, Who: who}); {
	case errors.Is(err, operate.ErrActive):
		l.app.Say("%s is active already, and not a shadow", p.Fingerprint)
		return nil
	case err != nil:
		return err
	}
	p.Shadow = true
	l.app.Say("%s is a shadow: the workers score it from now on", p.Fingerprint)
	return l.endShadows(ctx, before)
}

func (l *learning) endShadows(ctx context.Context, some []string) error {
	for _, print := range some {
		if _, err := operate.EndShadow(ctx, l.js, l.conf.Job, print); err != nil && !errors.Is(err, operate.ErrNoShadow) {
			return err
		}
	}
	return nil
}

// note summarizes a model in one line.
func note(r learn.Report, sites []siteResult) string {
	text := fmt.Sprintf("learned from %d labels of %d sequences of %d classes and %d streams", r.Used, r.Sequences, len(r.Classes), len(r.Streams))
	if r.Left > 0 {
		text += fmt.Sprintf("; %d labels left out", r.Left)
	}
	for i, s := range sites {
		if i == 0 {
			text += "; right without"
		}
		if s.Why == "" {
			text += fmt.Sprintf(" %s: %d of %d,", s.Site, s.Correct, s.Sequences)
		}
	}
	return registry.Line(strings.TrimSuffix(text, ","), registry.MaxNote)
}

// commandOf returns a command as typed, without the server's address, which may contain
// a password.
func commandOf(cmd *cobra.Command) string {
	text := cmd.CommandPath()
	cmd.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			switch {
			case f.Name == "nats-url":
			case f.Value.Type() == "bool" && v == "true":
				text += " --" + f.Name
			default:
				text += " --" + f.Name + " " + cli.QuoteForShell(v)
			}
		}
	})
	return registry.Line(text, registry.MaxCommand)
}

func isRegistry(err error) bool {
	for _, known := range []error{registry.ErrNone, registry.ErrNoEntry, registry.ErrDamaged, registry.ErrOtherNetwork} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}
