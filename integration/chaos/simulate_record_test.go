//go:build simulation && chaos && linux

package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/source"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// recorder records the input of a history.
type recorder struct {
	*guest
	follow bool // until the end of the process; otherwise until now
	every  time.Duration

	files, syncs, samples int // at the end
}

// addRecorder adds a recorder.
func (h *history) addRecorder(rng *rand.Rand) error {
	if h.scenario.countHarms(trims) > 0 {
		return nil // samples that are not recorded are removed
	}
	r := &recorder{follow: true, every: time.Duration(300+rng.IntN(5000)) * time.Millisecond}
	r.guest = h.newGuest("recorder", func(l *life) error { return h.record(l, r) }, func(error) bool { return true })
	r.disk = watchDisk(r.folder(0))
	r.disk.keeps = true
	h.truth.heard = map[string][]heard{}
	h.recorder = r
	return nil
}

// record is a process of the recorder.
func (h *history) record(l *life, r *recorder) error {
	job := h.job
	job.Log, job.NewEngine = l.log, newEngine
	job.Dial = func(_ context.Context, name string) (*nats.Conn, error) {
		return nats.Connect("", append(natsclient.LongLived(name, l.log), nats.InProcessServer(l.cable))...)
	}
	at, err := replay.WriteRecording(l.ctx, &job, replay.Record{
		Dir: l.dir, Files: source.RecordFiles{Job: job.Config.Job, Channels: channelNames}, LeadIn: -1, FromText: cli.FromStart, Follow: r.follow,
		Takes:  func(string) (func(string) bool, error) { return func(string) bool { return true }, nil },
		MaxAge: r.every, Rows: archive.GroupRows(channels),
	})
	l.log.Info("recorded", "files", at.File, "samples", at.Total.Samples, "to", at.To.Seq)
	if r.follow && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// compareRecorder ends the recorder, records the remaining samples, and compares the files.
func (h *history) compareRecorder(ctx context.Context) error {
	r := h.recorder
	if err := r.end(); err != nil {
		h.fail("the recorder ended: %v", err)
	}
	r.life, r.follow = nil, false
	r.start()
	l := r.life
	<-l.done
	if l.err != nil {
		h.fail("the recorder did not reach the end of the input: %v", l.err)
		return nil
	}
	files, err := recordingFiles(l.dir)
	if err != nil {
		return err
	}
	r.files, r.syncs = len(files), r.disk.syncs
	for _, all := range h.truth.heard {
		r.samples += len(all)
	}
	if err := h.judgeRecording(ctx, files); err != nil {
		h.fail("%v", err)
	}
	return nil
}
