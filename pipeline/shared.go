package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/formats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// SharedInput names the job with the input, and the beginning.
type SharedInput struct {
	// Job is the job with the input, and must be the input's owner. Empty: the
	// configured job has its own input.
	Job string
	// From is the beginning of a new job: "beginning" (the default), "now", or a time
	// in RFC 3339. A begun job continues at the job's position.
	From string
}

// Beginnings of a new job in another job's input.
const (
	fromBeginning = "beginning"
	fromNow       = "now"
)

func (s SharedInput) checkShared(job string) error {
	switch {
	case s.Job == "" && s.From != "" && s.From != fromBeginning:
		return fmt.Errorf("the job begins in its own input at %s: only a job that reads another job's input (input.job) can begin elsewhere than at its beginning", s.From)
	case s.Job == "":
		return nil
	case !jobToken.MatchString(s.Job):
		return fmt.Errorf("the input of job %q: want the name of a job, at most 32 lower-case letters, digits, - and _", s.Job)
	case s.Job == job:
		return fmt.Errorf("job %q would read the input of another job, and names itself: leave input.job out, or choose another name for the new job (job)", job)
	}
	_, err := s.fromTime()
	return err
}

// fromTime returns the time in From; zero for a word.
func (s SharedInput) fromTime() (time.Time, error) {
	if s.From == "" || s.From == fromBeginning || s.From == fromNow {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, s.From)
	if err != nil {
		return t, fmt.Errorf("the job begins in the input at %q, want %s, %s or a time such as 2026-01-31T08:00:00Z", s.From, fromBeginning, fromNow)
	}
	return t, nil
}

// settleSource finds the input of a job that reads another job's input, and uses that
// input's configuration. Without a configured job, it uses the source in the job's
// entry. For a job that has not begun, the source contains the beginning. A job with
// its own input passes unchanged.
func settleSource(ctx context.Context, js jetstream.JetStream, c Config) (Config, wire.Source, error) {
	job := c.WithDefaults().Job
	e, begun, err := entryOf(ctx, js, job)
	own := e.Source
	switch {
	case err != nil:
		return c, own, err
	case c.Shared.Job == "":
		c.Shared.Job = own.Job
	case begun && c.Shared.Job != own.Job:
		return c, own, otherSource(job, own.Job, c.Shared.Job)
	}
	if c.Shared.Job == "" {
		return c, own, nil
	}
	if !begun {
		if _, err := js.Stream(ctx, wire.InputStream(job)); err == nil {
			return c, own, otherSource(job, "", c.Shared.Job)
		} else if !errors.Is(err, jetstream.ErrStreamNotFound) {
			return c, own, fmt.Errorf("pipeline: NATS stream %s: %w", wire.InputStream(job), err)
		}
	}
	in, err := sharedInput(ctx, js, job, c.Shared.Job)
	if err != nil {
		return c, own, err
	}
	if c, err = c.onInput(in); err != nil {
		return c, own, err
	}
	created := wire.CreatedText(in.CachedInfo().Created)
	if !begun {
		own = wire.Source{Job: c.Shared.Job, Created: created}
		own.From, err = c.Shared.firstMessage(ctx, js, in)
	} else if own.Created != created {
		err = fmt.Errorf("pipeline: job %q reads an input created %s, but %s was created %s: it was deleted and created again, or the server did not load it; %s: %w",
			job, own.Created, in.CachedInfo().Config.Name, created, store.LostTrack(own.Job), wire.ErrSource)
	}
	return c, own, err
}

// onServer returns the configuration with its defaults, and with the server's
// configuration of the job's input.
func (c Config) onServer(ctx context.Context, js jetstream.JetStream) (Config, wire.Source, error) {
	c, source, err := settleSource(ctx, js, c)
	if err == nil && c.Partitions == 0 {
		c.Partitions, err = store.PartitionsOf(ctx, js, c.WithDefaults().Job)
	}
	return c.WithDefaults(), source, err
}

// entryOf returns a job's entry, and whether the job has begun.
func entryOf(ctx context.Context, js jetstream.JetStream, job string) (e wire.Entry, begun bool, err error) {
	out, err := js.Stream(ctx, wire.OutputStream(job))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return e, false, nil
	}
	if err != nil {
		return e, false, fmt.Errorf("pipeline: NATS stream %s: %w", wire.OutputStream(job), err)
	}
	e, seq, err := store.ReadEntry(ctx, out, job)
	return e, seq > 0, err
}

// otherSource refuses a change of the job with the input; empty = its own.
func otherSource(job, theirs, own string) error {
	name := func(of string) string {
		if of == "" {
			return "an input of its own, " + wire.InputStream(job)
		}
		return fmt.Sprintf("the input of job %q", of)
	}
	return fmt.Errorf("pipeline: job %q reads %s, this worker was started for %s: a job keeps its input: start the worker with the job's (input.job), or under another job name: %w", job, name(theirs), name(own), wire.ErrSource)
}

// sharedInput returns the input of another job, after a check that the other job owns
// the input.
func sharedInput(ctx context.Context, js jetstream.JetStream, job, other string) (jetstream.Stream, error) {
	e, _, err := entryOf(ctx, js, other)
	if err == nil {
		err = checkSettled(e, job, other)
	}
	if err != nil {
		return nil, err
	}
	if source := e.Source; source.Job != "" {
		return nil, fmt.Errorf("pipeline: job %q is to read the input of job %q, which has none: it reads that of job %q itself: set input.job to %s: %w", job, other, source.Job, source.Job, wire.ErrSource)
	}
	in, err := js.Stream(ctx, wire.InputStream(other))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("pipeline: job %q is to read the input of job %q, and there is no such job: the server has no NATS stream %s: check input.job, or start that job first: %w", job, other, wire.InputStream(other), wire.ErrSource)
	}
	if err != nil {
		return nil, fmt.Errorf("pipeline: NATS stream %s: %w", wire.InputStream(other), err)
	}
	return in, nil
}

// onInput uses the configuration of an existing input.
func (c Config) onInput(in jetstream.Stream) (Config, error) {
	info := in.CachedInfo()
	pattern := store.PatternOf(info.Config)
	partitions, err := store.PartitionsIn(info.Config)
	if err != nil {
		return c, err
	}
	if pattern.Filter() == "" {
		return c, fmt.Errorf("pipeline: NATS stream %s has the subjects %v: it was not created by a stage: %w", info.Config.Name, info.Config.Subjects, wire.ErrSource)
	}
	if c.InputSubject == "" {
		c.InputSubject = pattern.Filter()
	}
	if c.inputPattern().Filter() != pattern.Filter() {
		return c, fmt.Errorf("pipeline: the input of job %q takes messages on %s, the configuration says %s: leave input.subject out, and it is that job's: %w", c.Shared.Job, pattern.Filter(), c.InputSubject, wire.ErrSource)
	}
	if c.Partitions != 0 && c.Partitions != partitions {
		return c, fmt.Errorf("pipeline: the input of job %q has %d partitions, the configuration says %d: leave stage.partitions out, and it is that job's: %w", c.Shared.Job, partitions, c.Partitions, wire.ErrSource)
	}
	c.Partitions = partitions
	c.MaxMessage = max(c.WithDefaults().MaxMessage, int(info.Config.MaxMsgSize))
	return c, nil
}

// firstMessage returns the message with which a new job begins; 0 = the first.
func (s SharedInput) firstMessage(ctx context.Context, js jetstream.JetStream, in jetstream.Stream) (uint64, error) {
	state := in.CachedInfo().State
	at, err := s.fromTime()
	switch {
	case err != nil || s.From == "" || s.From == fromBeginning:
		return 0, err
	case s.From == fromNow:
		return state.LastSeq + 1, nil
	}
	return store.FirstSince(ctx, js, state, in.CachedInfo().Config.Name, at)
}

// stillSettled rechecks the job with the input, after the reader's entry is written:
// from then on a change of the number of partitions is refused, and a change that began
// earlier is detected here.
func stillSettled(ctx context.Context, js jetstream.JetStream, job string, source wire.Source) error {
	if source.Job == "" {
		return nil
	}
	e, _, err := entryOf(ctx, js, source.Job)
	if err != nil {
		return err
	}
	return checkSettled(e, job, source.Job)
}

// checkSettled refuses the input of a job with a changing number of partitions, or a
// job that will continue with the reader's states.
func checkSettled(e wire.Entry, reader, job string) error {
	if !e.Resize.UnderWay() || e.Resize.With != "" && e.Resize.With != reader {
		return nil
	}
	return fmt.Errorf("pipeline: the input of job %q cannot be read now: %w", job, &wire.ChangeError{Job: job, Change: e.Resize})
}

// formatOn returns the format in which a job reads another job's input. A new job uses
// that job's format, unless configured. The job may read other values of a message, but
// a message has one format.
func formatOn(ctx context.Context, js jetstream.JetStream, job string, source wire.Source, own formats.Input, channels []string) (formats.Input, error) {
	if source.Job == "" {
		return own, nil
	}
	if _, begun, err := entryOf(ctx, js, job); err != nil || begun {
		return own, err
	}
	e, _, err := entryOf(ctx, js, source.Job)
	if err != nil || e.Readout == "" { // that job's format is unknown
		return own, err
	}
	theirs, err := formats.Parse(e.Input)
	if err != nil {
		return own, otherInput(source.Job, e.Input, own)
	}
	switch set := own.WithDefaults(); {
	case set.IsPlain():
		if _, err := formats.New(theirs, codec.Schema{Channels: channels}); err != nil {
			return own, fmt.Errorf("pipeline: job %q, whose input this one reads, reads it in a way that does not fit this model's channels %q: %w: set input.format and input.channels for this job: %w", source.Job, channels, err, wire.ErrSource)
		}
		return theirs, nil
	case set.Format != theirs.Format && set.Format != formats.Auto && theirs.Format != formats.Auto:
		return own, fmt.Errorf("pipeline: the messages of job %q, whose input this one reads, are %s, and this job would read them as %s: leave input.format out, and it is that job's: %w", source.Job, theirs.Format, set.Format, wire.ErrSource)
	}
	return own, nil
}
